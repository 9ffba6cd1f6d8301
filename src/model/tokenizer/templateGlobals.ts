import { ROW_LIMITS } from '../files/limits.js';
import type { JinjaEnvironment } from './huggingFace.js';

/** Declares the functions and constants that transformers gives to chat templates. */
export function registerGlobals(environment: JinjaEnvironment): void {
  for (const [name, value] of [
    ['true', true],
    ['True', true],
    ['false', false],
    ['False', false],
    ['none', null],
    ['None', null],
  ] as const) {
    environment.set(name, value);
  }
  environment.set('raise_exception', (message: unknown) => {
    throw new Error(typeof message === 'string' ? message : 'the template raised an exception');
  });
  environment.set('range', range);
  environment.set('strftime_now', strftimeNow);
}

/** Python's range, refused where it would be long. */
function range(first: unknown, second?: unknown, third?: unknown): number[] {
  const start = second === undefined ? 0 : Number(first);
  const stop = Number(second === undefined ? first : second);
  const step = third === undefined ? 1 : Number(third);
  const count = Math.max(0, Math.ceil((stop - start) / step));
  if (!Number.isFinite(count) || count > ROW_LIMITS.templateRange)
    throw new Error(`found range(${start}, ${stop}, ${step}), expected at most ${ROW_LIMITS.templateRange} numbers`);
  return Array.from({ length: count }, (_, i) => start + i * step);
}

const MONTHS = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
];
const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];

/**
 * The current local time in Python's strftime notation, with English names whatever the locale, as the models were
 * trained.
 */
function strftimeNow(format: unknown): string {
  if (typeof format !== 'string') throw new Error('strftime_now: expected a format');
  const now = new Date();
  const two = (n: number): string => String(n).padStart(2, '0');
  const fields: Readonly<Record<string, () => string>> = {
    Y: () => String(now.getFullYear()),
    y: () => two(now.getFullYear() % 100),
    m: () => two(now.getMonth() + 1),
    d: () => two(now.getDate()),
    H: () => two(now.getHours()),
    I: () => two(now.getHours() % 12 || 12),
    M: () => two(now.getMinutes()),
    S: () => two(now.getSeconds()),
    p: () => (now.getHours() < 12 ? 'AM' : 'PM'),
    B: () => MONTHS[now.getMonth()] ?? '',
    b: () => (MONTHS[now.getMonth()] ?? '').slice(0, 3),
    A: () => DAYS[now.getDay()] ?? '',
    a: () => (DAYS[now.getDay()] ?? '').slice(0, 3),
    '%': () => '%',
  };
  return format.replace(/%(.)/g, (whole, letter: string) =>
    Object.hasOwn(fields, letter) ? (fields[letter]?.() ?? whole) : whole,
  );
}
