"""Runs a command on a terminal of its own, as a person does: python3 terminal.py COLUMNS SIGNAL_AFTER COMMAND...

Prints, as JSON, the exit code, everything that came, and the lines that are to be seen at the end. SIGNAL_AFTER is a text: when it has come, Ctrl-C is typed;
empty for never. Ends by itself after nine minutes.
"""
import codecs, fcntl, json, os, pty, re, select, struct, sys, termios, time

columns, after, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', 24, columns, 0, 0))
    os.execvp(command[0], command)

came, typed, end = b'', False, time.time() + 540
while time.time() < end:
    if select.select([terminal], [], [], 0.2)[0]:
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            break
        if not piece:
            break
        came += piece
    if after and not typed and after.encode() in came:
        os.write(terminal, b'\x03')
        typed = True
else:
    os.kill(child, 9)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def seen(text):
    """What a terminal shows: as much of ECMA-48 as progress bars use."""
    lines, row, column, wraps, saved = [[]], 0, 0, True, (0, 0)
    for part in re.findall(r'\x1b\[[0-9;?]*[A-Za-z]|\x1b[78]|[^\x1b]|\x1b', text):
        if part == '\x1b7':
            saved = (row, column)
        elif part == '\x1b8':
            row, column = saved
        elif part.startswith('\x1b['):
            numbers, kind = re.sub(r'\D+', ' ', part[2:-1]).split(), part[-1]
            count = int(numbers[0]) if numbers else 0
            if kind == 'K':
                lines[row] = [] if count == 2 else lines[row][:column] if count == 0 else lines[row]
            elif kind == 'G':
                column = max(0, count - 1)
            elif kind == 'A':
                row = max(0, row - max(1, count))
            elif part == '\x1b[?7l':
                wraps = False
            elif part == '\x1b[?7h':
                wraps = True
        elif part == '\r':
            column = 0
        elif part == '\n':
            row, lines = row + 1, lines + [[]] if row + 1 == len(lines) else lines
        else:
            if column >= columns:
                if not wraps:
                    continue
                row, column, lines = row + 1, 0, lines + [[]]
            line = lines[row]
            line += [' '] * (column + 1 - len(line))
            line[column] = part
            column += 1
    return [''.join(line).rstrip() for line in lines]


text = codecs.decode(came, 'utf-8', 'replace')
print(json.dumps({'code': code, 'text': text, 'lines': seen(text)}))
