"""The conformance kit for bridges: what is answered behind them, against trying every labelling."""
