import { TimedFetch, type Patience } from '../pull/TimedFetch.js';
import type { HubSettings } from './hubSettings.js';

/** The answer of the hub, or of who stands for it, to a request that it does not fulfil. */
export class HubRefusal extends Error {
  constructor(
    readonly status: number,
    /** In the hub's words, such as `GatedRepo`; nothing that was too odd. */
    readonly code: string,
    /** Seconds after which it wants to be asked again. */
    readonly retryAfter: number | undefined,
  ) {
    super(`status ${status}${code === '' ? '' : ` (${code})`}`);
  }
}

export interface HubAnswer {
  readonly status: number;
  readonly headers: Headers;
  /** The body; the transfer ends with its iteration. */
  read(): AsyncGenerator<Uint8Array>;
  /** Ends a transfer whose body nobody reads. */
  cancel(): Promise<void>;
}

/**
 * Asks the hub. The token goes to the hub alone: redirections to another host lose it, and addresses on other hosts get
 * none.
 * @throws HubRefusal for a status that is no success; whatever fetching throws
 */
export async function askHub(
  url: string,
  settings: HubSettings,
  patience: Patience,
  signal: AbortSignal,
  headers: Readonly<Record<string, string>> = {},
): Promise<HubAnswer> {
  const timed = new TimedFetch(signal, patience, settings.fetch);
  const own = new URL(url).origin === new URL(settings.endpoint).origin;
  const response = await timed.fetch(url, {
    headers: {
      ...headers,
      'accept-encoding': 'identity',
      ...(own && settings.token !== undefined && { authorization: `Bearer ${settings.token}` }),
    },
  });
  const { body } = response;
  async function* read(): AsyncGenerator<Uint8Array> {
    if (body !== null) yield* timed.read(body);
  }
  const cancel = async (): Promise<void> => {
    await body?.cancel().catch(() => undefined);
  };
  if (response.ok) return { status: response.status, headers: response.headers, read, cancel };
  const code = response.headers.get('x-error-code') ?? '';
  const after = Number(response.headers.get('retry-after') ?? NaN);
  await cancel();
  throw new HubRefusal(response.status, /^\w{1,64}$/.test(code) ? code : '', after >= 0 ? after : undefined);
}
