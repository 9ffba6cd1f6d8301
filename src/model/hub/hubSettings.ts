import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { found } from '../../arguments/found.js';
import { UsageError } from '../../errors/UsageError.js';
import { fetchOf } from '../pull/proxy.js';

/** Where the hub is, and how this user meets it: what Hugging Face's own tools go by. */
export interface HubSettings {
  /** Without a slash at its end. */
  readonly endpoint: string;
  /** The folder of the shared cache. */
  readonly cache: string;
  readonly token: string | undefined;
  /** Nothing is asked; what is in the cache is used. */
  readonly offline: boolean;
  /** Goes through the proxy, where there is one. */
  readonly fetch: typeof fetch;
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * `HF_ENDPOINT`, `HF_HUB_CACHE` or `HF_HOME`, `HF_TOKEN` or the file where `hf auth login` keeps it, `HF_HUB_OFFLINE`,
 * and the proxies (`fetchOf`).
 * @throws UsageError for an HF_ENDPOINT that is no address of the web, and a proxy that is none
 */
export async function hubSettings(environment: Environment = process.env): Promise<HubSettings> {
  const home = homeOf(environment);
  return {
    endpoint: endpointOf(environment),
    cache: hubCacheFolder(environment),
    token: await tokenOf(environment, home),
    fetch: await fetchOf(environment),
    offline: isOn(given(environment, 'HF_HUB_OFFLINE', 'TRANSFORMERS_OFFLINE')),
  };
}

/** The cache's folder alone. */
export function hubCacheFolder(environment: Environment = process.env): string {
  return given(environment, 'HF_HUB_CACHE', 'HUGGINGFACE_HUB_CACHE') ?? join(homeOf(environment), 'hub');
}

function homeOf(environment: Environment): string {
  const cache = given(environment, 'XDG_CACHE_HOME');
  return (
    given(environment, 'HF_HOME') ??
    join(cache !== undefined && isAbsolute(cache) ? cache : join(homedir(), '.cache'), 'huggingface')
  );
}

function endpointOf(environment: Environment): string {
  const endpoint = given(environment, 'HF_ENDPOINT') ?? 'https://huggingface.co';
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:')
    throw new UsageError(`HF_ENDPOINT: found ${found(endpoint)}, expected an address such as https://huggingface.co`);
  // They would stand in every message about it, and no request can be made with them.
  if (url.username !== '' || url.password !== '')
    throw new UsageError(
      `HF_ENDPOINT: found an address of ${url.host} with a user or a password, expected one without: HF_TOKEN is for that`,
    );
  return endpoint.replace(/\/+$/, '');
}

async function tokenOf(environment: Environment, home: string): Promise<string | undefined> {
  const said = given(environment, 'HF_TOKEN', 'HUGGING_FACE_HUB_TOKEN');
  const text =
    said ?? (await readFile(given(environment, 'HF_TOKEN_PATH') ?? join(home, 'token'), 'utf8').catch(() => ''));
  const token = text.trim();
  // What could not stand in a header is no token.
  return /^[\x21-\x7e]{1,4096}$/.test(token) ? token : undefined;
}

function isOn(value: string | undefined): boolean {
  return value !== undefined && ['1', 'true', 'yes', 'on'].includes(value.toLowerCase());
}

/** The first of these variables that says something. */
function given(environment: Environment, ...names: readonly string[]): string | undefined {
  return names.map((name) => environment[name]).find((value) => value !== undefined && value !== '');
}
