"""Training on shards of the data, wherever they are: processes, one after the other from disk, a cluster.

``parts`` says where the data are, ``recipe`` how a shard becomes a training problem in the process that has it,
``problem`` is the driver's side: the objective as a sum over shards, and ``fit`` the fit of an estimator, which joins
what features of different shards learn.
"""
