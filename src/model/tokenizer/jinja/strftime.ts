const MONTHS = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September', 'October', 'November', 'December']; // prettier-ignore
const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const DAY_MILLISECONDS = 86_400_000;

function dayOfYear(date: Date): number {
  return (
    Math.round(
      (Date.UTC(date.getFullYear(), date.getMonth(), date.getDate()) - Date.UTC(date.getFullYear(), 0, 1)) /
        DAY_MILLISECONDS,
    ) + 1
  );
}

/** Weeks of the year before which its first Sunday (0) or Monday (1) comes. */
function week(date: Date, begins: number): number {
  return Math.floor((dayOfYear(date) + 6 - ((date.getDay() + 7 - begins) % 7)) / 7);
}

/** The year and the week of ISO 8601, which belong to the week's Thursday. */
function isoWeek(date: Date): [year: number, week: number] {
  const thursday = new Date(date.getFullYear(), date.getMonth(), date.getDate() + 3 - ((date.getDay() + 6) % 7));
  return [thursday.getFullYear(), Math.floor((dayOfYear(thursday) - 1) / 7) + 1];
}

const name = (names: readonly string[], at: number): string => names[at] ?? '';

/** The text that C's `strftime` in its own locale, and Python's, write for each letter. */
const FIELDS: Readonly<Record<string, (date: Date) => string | [number, number, string?]>> = {
  a: (date) => name(DAYS, date.getDay()).slice(0, 3),
  A: (date) => name(DAYS, date.getDay()),
  b: (date) => name(MONTHS, date.getMonth()).slice(0, 3),
  B: (date) => name(MONTHS, date.getMonth()),
  c: (date) => strftime('%a %b %e %H:%M:%S %Y', date),
  C: (date) => [Math.floor(date.getFullYear() / 100), 2],
  d: (date) => [date.getDate(), 2],
  D: (date) => strftime('%m/%d/%y', date),
  e: (date) => [date.getDate(), 2, ' '],
  f: (date) => String(date.getMilliseconds() * 1000).padStart(6, '0'),
  F: (date) => strftime('%Y-%m-%d', date),
  g: (date) => [isoWeek(date)[0] % 100, 2],
  G: (date) => [isoWeek(date)[0], 1],
  h: (date) => name(MONTHS, date.getMonth()).slice(0, 3),
  H: (date) => [date.getHours(), 2],
  I: (date) => [date.getHours() % 12 || 12, 2],
  j: (date) => [dayOfYear(date), 3],
  k: (date) => [date.getHours(), 2, ' '],
  l: (date) => [date.getHours() % 12 || 12, 2, ' '],
  m: (date) => [date.getMonth() + 1, 2],
  M: (date) => [date.getMinutes(), 2],
  n: () => '\n',
  p: (date) => (date.getHours() < 12 ? 'AM' : 'PM'),
  P: (date) => (date.getHours() < 12 ? 'am' : 'pm'),
  r: (date) => strftime('%I:%M:%S %p', date),
  R: (date) => strftime('%H:%M', date),
  s: (date) => String(Math.floor(date.getTime() / 1000)),
  S: (date) => [date.getSeconds(), 2],
  t: () => '\t',
  T: (date) => strftime('%H:%M:%S', date),
  u: (date) => [date.getDay() || 7, 1],
  U: (date) => [week(date, 0), 2],
  V: (date) => [isoWeek(date)[1], 2],
  w: (date) => [date.getDay(), 1],
  W: (date) => [week(date, 1), 2],
  x: (date) => strftime('%m/%d/%y', date),
  X: (date) => strftime('%H:%M:%S', date),
  y: (date) => [date.getFullYear() % 100, 2],
  Y: (date) => [date.getFullYear(), 1],
  // The reference's clock names no zone.
  z: () => '',
  Z: () => '',
  '%': () => '%',
};

/**
 * A date in the local time zone as Python's `datetime.strftime` writes it on Linux, with English names whatever the
 * locale, as the models were trained; glibc's flags (`%-d`, `%_d`, `%^a`) and widths among it.
 */
export function strftime(format: string, date: Date): string {
  return format.replace(
    /%([-_0^#]*)(\d{0,3})([EO]?)([a-zA-Z%])/g,
    (whole, flags: string, width: string, _modifier: string, letter: string) => {
      const field = Object.hasOwn(FIELDS, letter) ? FIELDS[letter] : undefined;
      if (field === undefined) return whole;
      const value = field(date);
      let text: string;
      if (typeof value === 'string')
        text = width === '' ? value : value.padStart(Number(width), flags.includes('0') ? '0' : ' ');
      else {
        const [number, digits, usual = '0'] = value;
        const fill = flags.includes('-') ? '' : flags.includes('_') ? ' ' : flags.includes('0') ? '0' : usual;
        text = fill === '' ? String(number) : String(number).padStart(Math.max(digits, Number(width)), fill);
      }
      if (flags.includes('^')) return text.toUpperCase();
      if (!flags.includes('#')) return text;
      return letter === 'p' || letter === 'Z' ? text.toLowerCase() : text.toUpperCase();
    },
  );
}
