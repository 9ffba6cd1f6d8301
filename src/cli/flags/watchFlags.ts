import { Option, type Command } from 'commander';
import { UsageError } from '../library.js';

export interface WatchFlags {
  readonly watch?: WatchAddress;
}

export interface WatchAddress {
  /** Undefined: this machine's own. */
  readonly host?: string;
  readonly port: number;
}

export function addWatchFlag(command: Command): void {
  command.addOption(
    new Option(
      '--watch <port>',
      'a page that shows the job, and figures for Prometheus (/metrics), at this port of 127.0.0.1; 0: any; HOST:PORT: elsewhere, which demands a key in SPILLWAY_API_KEY (default: none)',
    ).argParser(watchAddress),
  );
}

/** `9464`, `localhost:9464`, `[::1]:9464`. @throws UsageError */
function watchAddress(text: string): WatchAddress {
  const [, six, name, digits = ''] = /^(?:(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+)):)?(\d{1,5})$/i.exec(text) ?? [];
  const host = six ?? name;
  const port = Number(digits);
  if (digits === '' || port > 65_535)
    throw new UsageError(`--watch: found ${JSON.stringify(text)}, expected a port from 0 to 65535, or HOST:PORT`);
  return { port, ...(host !== undefined && { host }) };
}
