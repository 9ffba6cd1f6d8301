"""The README's picture of a run on a terminal of 80 columns, interrupted by Ctrl-C and resumed.
    npm run build && pip install pyte && python3 scripts/terminalPicture.py [FILE]
Writes FILE (default docs/images/run-resumed.svg), and prints what the terminal showed when the run had begun, when it
was resumed, and at its end. A terminal's emulator reads what the command writes to a pseudo-terminal; `npx` is only
written."""

import fcntl
import html
import os
import pty
import select
import signal
import struct
import sys
import tempfile
import termios
import time

import pyte

COLUMNS, LINES = 80, 24
ROWS = 1200
# Pixels of a character, which a browser is told to keep to.
WIDTH, HEIGHT, MARGIN = 8.4, 18, 12
FOREGROUND, BACKGROUND = '#d0d7de', '#0d1117'
COLOURS = {
    'default': FOREGROUND, 'black': '#6e7681', 'red': '#ff7b72', 'green': '#7ee787', 'brown': '#e3b341',
    'blue': '#79c0ff', 'magenta': '#d2a8ff', 'cyan': '#a5d6ff', 'white': '#ffffff',
}
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Terminal:
    """A shell's window: shows commands as they would be typed, and what they write."""

    def __init__(self, folder):
        self.folder = folder
        self.screen = pyte.Screen(COLUMNS, LINES)
        self.stream = pyte.ByteStream(self.screen)

    def start(self, arguments):
        """Begins `spillway ARGUMENTS`."""
        self.stream.feed(f'$ npx spillway {arguments}\r\n'.encode())
        self.process, self.master = pty.fork()
        if self.process == 0:
            os.chdir(self.folder)
            environment = {**os.environ, 'TERM': 'xterm-256color'}
            command = [os.path.join(ROOT, 'dist/cli/spillway.js'), *arguments.replace('\\\r\n', ' ').split()]
            os.execvpe('node', ['node', *command], environment)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack('HHHH', LINES, COLUMNS, 0, 0))

    def show(self, seconds=3600.0, until=lambda screen: False):
        """Shows what comes until it is so, or the time is over, or the command ends. Returns its exit code if it did."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not until(self.screen):
            if not select.select([self.master], [], [], 0.1)[0]:
                continue
            try:
                self.stream.feed(os.read(self.master, 65536))
            except OSError:  # it has closed the terminal
                return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        return None

    def interrupt(self):
        os.kill(self.process, signal.SIGINT)

    def print(self):
        print('\n'.join(row.rstrip() for row in self.screen.display).rstrip() + '\n---')

    def picture(self, path):
        shown = 1 + max(line for line in range(LINES) if self.screen.display[line].strip())
        height = shown * HEIGHT + 2 * MARGIN
        width = COLUMNS * WIDTH + 2 * MARGIN
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" font-size="14" '
            'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace">',
            f'<rect width="100%" height="100%" rx="6" fill="{BACKGROUND}"/>',
        ]
        for line in range(shown):
            y = MARGIN + (line + 0.75) * HEIGHT
            for column, text, colour in runs(self.screen.buffer[line]):
                x = MARGIN + column * WIDTH
                lines.append(
                    f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" textLength="{len(text) * WIDTH:.1f}" '
                    f'xml:space="preserve">{html.escape(text)}</text>'
                )
        with open(path, 'w', encoding='utf8') as file:
            file.write('\n'.join([*lines, '</svg>', '']))


def runs(line):
    """What stands in a line: column, text and colour of each run of one colour."""
    found = []
    for column in range(COLUMNS):
        character = line[column]
        colour = COLOURS.get(character.fg, f'#{character.fg}')
        if found and found[-1][2] == colour:
            found[-1][1] += character.data
        else:
            found.append([column, character.data, colour])
    return [(column, text.rstrip(), colour) for column, text, colour in found if text.strip()]


def main():
    target = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, 'docs', 'images', 'run-resumed.svg')
    os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, 'questions.txt'), 'w', encoding='utf8') as file:
            file.writelines(f'What comes after {number}?\n' for number in range(ROWS))
        terminal = Terminal(folder)
        run = 'generate --model smollm2-135m-instruct \\\r\n    --input questions.txt --output answers.jsonl --max-new-tokens 16'
        terminal.start(run)
        terminal.show(until=lambda screen: any(' left' in row for row in screen.display))
        terminal.show(seconds=3)
        terminal.print()
        terminal.interrupt()
        assert terminal.show() == 130
        terminal.start(run + ' --resume')
        terminal.show(until=lambda screen: ' left' in screen.display[screen.cursor.y])
        terminal.show(seconds=3)
        terminal.print()
        terminal.picture(target)
        assert terminal.show() == 0
        terminal.print()


main()
