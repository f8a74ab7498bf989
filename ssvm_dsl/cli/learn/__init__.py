"""``ssvm train``, ``predict``, ``evaluate``, ``convert`` and ``info``: models and files of data, without Python."""
