"""How the host runs code of plug-ins: contained, checked, timed, and its surroundings put back."""
