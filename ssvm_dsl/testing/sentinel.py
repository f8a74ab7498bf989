"""The process that speaks for a conformance kit while a call of the plug-in lets no other Python code run.

A solver written in C that keeps Python's global lock stops the thread that watches the kit as well.  This process is
outside: it reads what begins and ends, and writes a line when something has taken long and nobody else has said so.
It is run as a file and imports nothing of the package.
"""

import os
import sys
import threading
from time import monotonic, sleep


class Sentinel:
    """What the kit is doing, as far as it is known outside.

    Parameters
    ----------
    slow : float
        Seconds after which the process speaks; then each time that three times as long has passed.
    """

    def __init__(self, slow: float) -> None:
        self.slow, self.begin, self.due, self.text = slow, 0.0, float("inf"), ""

    def hear(self, line: str) -> None:
        """Note ``begin TEXT`` (with ``@`` for the seconds), ``told`` or ``done``."""
        word, _, rest = line.partition(" ")
        now = monotonic()
        if word == "begin":
            self.text, self.begin, self.due = rest, now, now + self.slow
        elif word == "told":  # somebody else has spoken, and will when it has taken three times as long
            self.due = self.begin + 3.0 * (now - self.begin) + 1.0
        else:
            self.due = float("inf")

    def speak(self) -> None:
        """Say what takes long, for ever."""
        while True:
            sleep(0.1)
            spent = monotonic() - self.begin
            if self.begin + spent >= self.due:
                self.due = self.begin + 3.0 * spent
                text = self.text.replace("@", f"{spent:.0f} s", 1)
                os.write(2, f"{text}, in one call that lets no other Python code run\n".encode())


def main() -> None:
    """Read standard input until it ends."""
    sentinel = Sentinel(float(sys.argv[1]))
    threading.Thread(target=sentinel.speak, daemon=True).start()
    for line in sys.stdin:
        sentinel.hear(line.rstrip("\n"))


if __name__ == "__main__":
    main()
