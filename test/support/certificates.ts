import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { PeerCertificates } from '../../src/index.js';

/** An authority of its own, in a folder, and certificates that it gives. */
export function certificateAuthority(folder: string, name: string): (member: string) => PeerCertificates {
  const at = (file: string): string => join(folder, `${name}-${file}`);
  const openssl = (...args: readonly string[]): void => {
    execFileSync('openssl', args, { stdio: 'pipe' });
  };
  const newKey = (subject: string, key: string): string[] => [
    'req',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:P-256',
    '-nodes',
    '-keyout',
    key,
    '-subj',
    `/CN=${subject}`,
  ];
  openssl(...newKey(name, at('ca.key')), '-x509', '-days', '2', '-out', at('ca.pem'));
  return (member) => {
    const [key, request, cert] = ['key', 'csr', 'pem'].map((ending) => at(`${member}.${ending}`)) as [
      string,
      string,
      string,
    ];
    openssl(...newKey(member, key), '-out', request);
    openssl(
      ...['x509', '-req', '-in', request, '-CA', at('ca.pem'), '-CAkey', at('ca.key')],
      ...['-CAcreateserial', '-days', '2', '-out', cert],
    );
    return {
      key: readFileSync(key, 'utf8'),
      cert: readFileSync(cert, 'utf8'),
      ca: readFileSync(at('ca.pem'), 'utf8'),
    };
  };
}
