"""The defence of the host against strangers: plug-ins, and classes of users.

Names and types of descriptions are checked (``check_spec``), errors contained and surroundings put back
(``contained``); sessions of foreign backends see read-only arrays, and what they return is checked and copied
(``sessions``), as is what rules of constraints return (``rules``).  What every answer is held against, whoever gives
it, is :mod:`ssvm_dsl.inference.verification`.
"""
