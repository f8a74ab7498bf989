"""The conformance kit for bridges: compares answers behind them with those of trying every labelling."""
