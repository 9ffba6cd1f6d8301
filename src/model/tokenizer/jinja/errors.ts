/** The exceptions of Python and jinja2 that templates can raise; some filters catch some of them. */
export type ErrorKind =
  | 'TypeError'
  | 'ValueError'
  | 'LookupError'
  | 'AttributeError'
  | 'OverflowError'
  | 'ZeroDivisionError'
  | 'AssertionError'
  | 'UndefinedError'
  | 'SecurityError'
  | 'TemplateError'
  | 'TemplateSyntaxError';

/** An error that the reference raises, too. */
export class PythonError extends Error {
  constructor(
    readonly kind: ErrorKind,
    message: string,
  ) {
    super(kind === 'TemplateError' ? message : `${kind}: ${message}`);
  }
}

/**
 * The error for what cannot be done here as the reference does it, or goes beyond a limit: no template goes on after
 * it.
 */
export class Refused extends Error {}

/** The end of a rendering that takes more than one turn of the event loop, and is to be done elsewhere. */
export class TooLong extends Error {}

export const typeError = (message: string): PythonError => new PythonError('TypeError', message);
export const valueError = (message: string): PythonError => new PythonError('ValueError', message);

/** The refusal of something that the reference renders, by its name. */
export const unsupported = (construct: string): Refused => new Refused(`${construct}: not supported in chat templates`);
