import type { GgufField } from '../../model/support/GgufWriter.js';
import type { Damage } from '../images/ModelImage.js';
import type { Random } from '../Random.js';
import { wholeNumber } from './values.js';

const KINDS = ['cut', 'extend', 'flip', 'noise', 'field', 'remove', 'copy'] as const;

/** Something to be done to a written file that leaves its lengths and offsets as they are: wrong. */
export function anyDamage(random: Random): Damage {
  return {
    file: random.next() / 2 ** 32,
    kind: random.pick(KINDS),
    at: random.next() / 2 ** 32,
    value: wholeNumber(random),
  };
}

/** @param fields where the file's lengths, counts and offsets stand */
export function damaged(bytes: Uint8Array, fields: readonly GgufField[], { kind, at, value }: Damage): Uint8Array {
  const place = Math.floor(at * bytes.length);
  const few = Number(value % 64n);
  switch (kind) {
    case 'cut':
      return bytes.subarray(0, place);
    case 'extend':
      return Buffer.concat([bytes, Buffer.alloc(1 + few, few)]);
    case 'remove':
      return Buffer.concat([bytes.subarray(0, place), bytes.subarray(place + 1 + few)]);
    case 'copy':
      return Buffer.concat([bytes.subarray(0, place), bytes.subarray(place, place + 1 + few), bytes.subarray(place)]);
    case 'noise':
      return changed(bytes, (copy) => copy.fill(Number(value & 0xffn), place, Math.min(bytes.length, place + 1 + few)));
    case 'flip':
      return changed(
        bytes,
        (copy) => copy.writeUInt8(copy.readUInt8(place) ^ (1 << (few & 7)), place),
        place < bytes.length,
      );
    case 'field': {
      const field = fields[Math.floor(at * fields.length)];
      return changed(bytes, (copy) => {
        if (field?.bytes === 8) copy.writeBigUInt64LE(BigInt.asUintN(64, value), field.offset);
        else if (field) copy.writeUInt32LE(Number(BigInt.asUintN(32, value)), field.offset);
      });
    }
  }
}

function changed(bytes: Uint8Array, change: (copy: Buffer) => void, possible = true): Uint8Array {
  const copy = Buffer.from(bytes);
  if (possible) change(copy);
  return copy;
}
