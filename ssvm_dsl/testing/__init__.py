"""For authors of plug-ins: a brute-force reference, problem generators, and the conformance kit.

``conformance.check_backend("my-backend")`` runs it; the pytest fixture ``backend_conformance`` does so in a
test.
"""
