"""The conformance kit of executors: calls on shards that count, fail, take their time or lose their process."""
