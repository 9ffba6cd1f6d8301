/**
 * The same object, but for some of its members; everything else goes to the original, whose private state stays its
 * own.
 */
export function overriding<T extends object>(target: T, members: Partial<T>): T {
  return new Proxy(target, {
    get: (original, key) => {
      const member: unknown = Reflect.get(
        key in members ? members : original,
        key,
        key in members ? members : original,
      );
      return typeof member === 'function' && !(key in members) ? member.bind(original) : member;
    },
  });
}
