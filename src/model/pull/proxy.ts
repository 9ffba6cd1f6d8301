import { UsageError } from '../../errors/UsageError.js';

type Environment = Readonly<Record<string, string | undefined>>;

/** A proxy that the environment names. */
interface NamedProxy {
  readonly variable: string;
  /** With what it is opened by. */
  readonly url: URL;
}

const VARIABLES = ['HTTPS_PROXY', 'HTTP_PROXY'] as const;

const agents = new Map<string, Promise<typeof fetch>>();

/**
 * `fetch` that goes through the proxies that the environment names, as other tools do: `HTTPS_PROXY` and `HTTP_PROXY`,
 * except to the hosts of `NO_PROXY`; the names in small letters go first, and `HTTP_PROXY` alone serves both. Node's
 * own looks at none of them.
 * @throws UsageError for a proxy that is none
 */
export async function fetchOf(environment: Environment): Promise<typeof fetch> {
  const proxies = proxiesOf(environment);
  if (proxies.length === 0) return fetch;
  const [httpsProxy, httpProxy] = VARIABLES.map((name) => proxies.find(({ variable }) => variable === name)?.url.href);
  const noProxy = given(environment, 'NO_PROXY') ?? '';
  const key = JSON.stringify([httpsProxy, httpProxy, noProxy]);
  const made =
    agents.get(key) ??
    // Loaded on demand, and with its own `fetch`: agents of one version and a `fetch` of another do not always agree.
    import('undici').then((undici): typeof fetch => {
      const dispatcher = new undici.EnvHttpProxyAgent({
        ...(httpsProxy !== undefined && { httpsProxy }),
        ...(httpProxy !== undefined && { httpProxy }),
        noProxy,
      });
      const own = undici.fetch as unknown as (
        input: Parameters<typeof fetch>[0],
        init: { readonly dispatcher: object },
      ) => ReturnType<typeof fetch>;
      return (input, init) => own(input, { ...init, dispatcher });
    });
  agents.set(key, made);
  return made;
}

/**
 * Gives the words on proxies for a failed download, without what the proxies are opened by: `through the proxy
 * proxy:3128 …`.
 */
export function proxyWords(environment: Environment): string {
  const proxies = proxiesOf(environment).map(({ variable, url }) => `${variable} ${url.protocol}//${url.host}`);
  const without = given(environment, 'NO_PROXY');
  return proxies.length === 0
    ? 'no proxy is set; where one is needed, HTTPS_PROXY names it'
    : `the proxy is that of ${proxies.join(' and ')}${without === undefined ? '' : `, but for NO_PROXY ${without}`}`;
}

/** @throws UsageError */
function proxiesOf(environment: Environment): NamedProxy[] {
  return VARIABLES.flatMap((variable) => {
    const text = given(environment, variable);
    if (text === undefined) return [];
    // `proxy:3128` is how curl's users write it.
    const whole = text.includes('://') ? text : `http://${text}`;
    const url = URL.canParse(whole) ? new URL(whole) : undefined;
    // What it says may be a password.
    if ((url?.protocol !== 'http:' && url?.protocol !== 'https:') || url.hostname === '')
      throw new UsageError(`${variable}: found no address of a proxy, expected http://HOST:PORT`);
    return [{ variable, url }];
  });
}

function given(environment: Environment, name: string): string | undefined {
  return [environment[name.toLowerCase()], environment[name]].find((value) => value !== undefined && value !== '');
}
