/** Whether it is an object that has members by name, as JSON knows them; an array is none, nor is a function. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
