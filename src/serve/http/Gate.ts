import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { ApiError } from './ApiError.js';

/** Whom a server answers. */
export interface GateOptions {
  /** The address that it listens on, as it was given. */
  readonly host: string;
  readonly apiKey?: string | undefined;
  readonly allowedHosts?: readonly string[] | undefined;
  readonly allowedOrigins?: readonly string[] | undefined;
}

/**
 * Decides who gets as far as a route. A web page that has had its own name resolve to this address (DNS rebinding) says
 * that name as `Host`, and one that sends a form or a script's request says its `Origin`: neither is answered. IP
 * addresses are no names, so a page cannot be at one without being served from it.
 */
export class Gate {
  readonly #hosts: ReadonlySet<string>;
  readonly #origins: ReadonlySet<string>;
  readonly #key: Buffer | undefined;

  constructor({ host, apiKey, allowedHosts = [], allowedOrigins = [] }: GateOptions) {
    this.#hosts = new Set(['localhost', host, ...allowedHosts].map((name) => name.toLowerCase()));
    this.#origins = new Set(allowedOrigins.map((origin) => origin.toLowerCase().replace(/\/$/, '')));
    this.#key = apiKey === undefined ? undefined : digestOf(apiKey);
  }

  /** @throws ApiError for a request of a page that is not allowed */
  checkSource(request: IncomingMessage): void {
    const { host, origin } = request.headers;
    if (countOf(request, 'host') !== 1 || host === undefined) throw new ApiError(400, 'Host: expected one');
    const name = hostName(host);
    if (name === undefined) throw new ApiError(400, 'Host: expected a name or an address, and a port');
    if (isIP(name) === 0 && !this.#hosts.has(name))
      throw new ApiError(
        403,
        'Host: found a name that this server is not known by; `allowedHosts` (--allow-host) adds one',
        {
          code: 'host_not_allowed',
        },
      );
    if (origin !== undefined && !this.allowsOrigin(origin, host))
      throw new ApiError(
        403,
        'Origin: found a web page that may not use this server; `allowedOrigins` (--allow-origin) adds one',
        {
          code: 'origin_not_allowed',
        },
      );
  }

  /** Tells whether an origin was named, or is the server's own. */
  allowsOrigin(origin: string, host: string): boolean {
    const asked = origin.toLowerCase();
    return (
      this.#origins.has(asked) || asked === `http://${host.toLowerCase()}` || asked === `https://${host.toLowerCase()}`
    );
  }

  /** Tells whether a page of that origin is to be told that it may read the answer. */
  isForeign(origin: string): boolean {
    return this.#origins.has(origin.toLowerCase());
  }

  /** @throws ApiError for a request without the key; how long that takes tells nothing of it */
  checkKey({ headers: { authorization = '' } }: IncomingMessage): void {
    if (!this.#key) return;
    const [, given = ''] = /^Bearer +(\S+) *$/i.exec(authorization.slice(0, 2048)) ?? [];
    if (timingSafeEqual(digestOf(given), this.#key)) return;
    throw new ApiError(
      401,
      given === '' ? 'found no API key, expected `Authorization: Bearer KEY`' : 'found a wrong API key',
      {
        code: 'invalid_api_key',
        headers: { 'www-authenticate': 'Bearer' },
      },
    );
  }
}

/** Tells whether nobody beyond this machine reaches an address. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}

function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** The name of `name:port`, in small letters, an IPv6 address without brackets; undefined for what is none. */
function hostName(host: string): string | undefined {
  const [, six, name] = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::\d{1,5})?$/i.exec(host) ?? [];
  return (six ?? name)?.toLowerCase().replace(/\.$/, '');
}

/** How often a header stands in a request: Node keeps the first of some. */
export function countOf({ rawHeaders }: IncomingMessage, name: string): number {
  return rawHeaders.filter((each, at) => at % 2 === 0 && each.toLowerCase() === name).length;
}
