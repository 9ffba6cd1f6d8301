import { describe, expect, test } from '@jest/globals';
import { isKeeping, mountAt } from '../../../src/model/identity/hashFile.js';

const MOUNTS = `27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
28 27 0:25 / /mnt ro,nosuid - squashfs /dev/loop1 ro
29 27 259:1 /models /mnt/models ro,relatime shared:7 master:1 - xfs /dev/nvme0n1 rw,attr2
30 27 0:31 / /mnt/two\\040words rw - fuse.sshfs host:/a\\040b rw,user_id=0
31 27 7:0 / /image rw - ext4 /dev/loop0 rw
32 27 8:1 / /image rw - ext4 /dev/sda1 rw
33 27 7:1 / /writable rw - ext4 /dev/loop7 rw
34 27 0:40 / /share ro - nfs4 server:/models ro,vers=4.2
35 27 0:41 / /root rw - overlay overlay rw,lowerdir=/a:/b
`;

describe('mountAt', () => {
  test('is the innermost mount that a path lies in, of several at one point the last', () => {
    expect(mountAt(MOUNTS, '/home/model.gguf')).toEqual({ type: 'ext4', source: '/dev/vda', readOnly: false });
    expect(mountAt(MOUNTS, '/mnt/model.gguf')).toEqual({ type: 'squashfs', source: '/dev/loop1', readOnly: true });
    expect(mountAt(MOUNTS, '/mnt/modelsandmore')).toMatchObject({ type: 'squashfs' });
    expect(mountAt(MOUNTS, '/mnt/models/a')).toEqual({ type: 'xfs', source: '/dev/nvme0n1', readOnly: false });
    expect(mountAt(MOUNTS, '/mnt/two words/a')).toEqual({ type: 'fuse.sshfs', source: 'host:/a b', readOnly: false });
    expect(mountAt(MOUNTS, '/image/a')).toMatchObject({ source: '/dev/sda1' });
  });

  test('is nothing where nothing is known', () => {
    expect(mountAt('', '/a')).toBeUndefined();
    expect(mountAt('garbage\n\n - \n', '/a')).toBeUndefined();
  });
});

describe('hashes are kept for other processes', () => {
  test.each([
    ['/home/a', true],
    ['/mnt/models/a', true],
    ['/image/a', true],
    ['/share/a', true],
    ['/mnt/a', false],
    ['/mnt/two words/a', false],
    ['/writable/a', false],
    ['/root/a', false],
  ])('%s: %s', (path, kept) => {
    expect(isKeeping(mountAt(MOUNTS, path))).toBe(kept);
  });
});
