"""The conformance kit of executors: calls on shards that count, fail, are slow or lose their process."""
