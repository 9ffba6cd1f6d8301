/** A file system where it is mounted, as Linux tells of it. */
export interface Mount {
  /** Such as `ext4`. */
  readonly type: string;
  /** A device, a server, or whatever stands for one. */
  readonly source: string;
  /** Nobody can write to the file system, through whichever mount of it. */
  readonly readOnly: boolean;
}

/**
 * The mount that a file lies in.
 * @param mountinfo what `/proc/self/mountinfo` says
 * @param path absolute, without symbolic links
 */
export function mountAt(mountinfo: string, path: string): Mount | undefined {
  let found: Mount | undefined;
  let longest = -1;
  for (const line of mountinfo.split('\n')) {
    const [mount = '', system = ''] = line.split(' - ');
    const point = unescaped(mount.split(' ')[4] ?? '');
    const within = point.endsWith('/') ? point : `${point}/`;
    // Of mounts at one point the last one is seen.
    if (system === '' || point.length < longest || !path.startsWith(within)) continue;
    const [type = '', source = '', options = ''] = system.split(' ');
    found = { type, source: unescaped(source), readOnly: options.split(',').includes('ro') };
    longest = point.length;
  }
  return found;
}

/** Spaces, tabs, line ends and backslashes stand there as octal numbers. */
function unescaped(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
}
