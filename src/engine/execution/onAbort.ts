type Callback = (reason: unknown) => void;

const listeners = new WeakMap<AbortSignal, { readonly waiting: Set<Callback>; readonly listener: () => void }>();

/**
 * Calls back when a signal fires. All who wait for one signal share one listener: however many runs a program gives its
 * signal to, Node does not take them for a leak.
 *
 * @returns stops waiting
 */
export function onAbort(signal: AbortSignal, callback: Callback): () => void {
  const { waiting, listener } = listeners.get(signal) ?? listen(signal);
  waiting.add(callback);
  return () => {
    if (!waiting.delete(callback) || waiting.size > 0) return;
    signal.removeEventListener('abort', listener);
    listeners.delete(signal);
  };
}

function listen(signal: AbortSignal): { readonly waiting: Set<Callback>; readonly listener: () => void } {
  const waiting = new Set<Callback>();
  const listener = (): void => {
    for (const callback of waiting) callback(signal.reason);
  };
  signal.addEventListener('abort', listener);
  const shared = { waiting, listener };
  listeners.set(signal, shared);
  return shared;
}
