import { found } from '../../../arguments/found.js';
import { PeerError } from '../../../errors/engineErrors.js';
import type { ByteReader } from './ByteReader.js';
import type { ByteWriter } from './ByteWriter.js';

/** How a value is written into a frame, and read out of one that may say anything. */
export interface Codec<T> {
  write(out: ByteWriter, value: T): void;
  /** @param name where the value stands, for messages @throws PeerError */
  read(from: ByteReader, name: string): T;
}

/** The codec of a member that may be left out. */
export interface OptionalCodec<T> {
  readonly optional: Codec<T>;
}

/** The codecs of an object's members, in the order in which they are written. */
export type MemberCodecs<T> = {
  readonly [Name in keyof T]-?: undefined extends T[Name] ? OptionalCodec<Exclude<T[Name], undefined>> : Codec<T[Name]>;
};

/** A whole number of at least 0. */
export const whole: Codec<number> = {
  write: (out, value) => {
    out.whole(value);
  },
  read: (from, name) => from.whole(name),
};

/** A whole number of at least -1. */
export const wholeOrNone: Codec<number> = {
  write: (out, value) => {
    out.whole(value + 1);
  },
  read: (from, name) => from.whole(name) - 1,
};

/** Any number, to the bit. */
export const number: Codec<number> = {
  write: (out, value) => {
    out.number(value);
  },
  read: (from, name) => from.number(name),
};

export const floats: Codec<Float32Array> = {
  write: (out, values) => {
    out.floats(values);
  },
  read: (from, name) => from.floats(name),
};

export const octets: Codec<Uint8Array> = {
  write: (out, values) => {
    out.octets(values);
  },
  read: (from, name) => from.octets(name),
};

/** As `floats`, rounded to bfloat16. */
export const bfloats: Codec<Float32Array> = {
  write: (out, values) => {
    out.bfloats(values);
  },
  read: (from, name) => from.bfloats(name),
};

export function text(mostBytes: number): Codec<string> {
  return {
    write: (out, value) => {
      out.text(value);
    },
    read: (from, name) => from.text(name, mostBytes),
  };
}

/** One of some values, by its place among them. */
export function oneOf<const T>(...among: readonly T[]): Codec<T> {
  return {
    write: (out, value) => {
      const place = among.indexOf(value);
      if (place < 0) throw new PeerError(`message: found ${found(value)}, expected one of ${among.join(', ')}`);
      out.whole(place);
    },
    read: (from, name) => {
      const place = from.byte(name);
      const value = among[place];
      if (value === undefined)
        throw new PeerError(`${name}: found choice ${place}, expected one of ${among.length}: ${among.join(', ')}`);
      return value;
    },
  };
}

export const truth: Codec<boolean> = oneOf(false, true);

export function list<T>(each: Codec<T>): Codec<readonly T[]> {
  return {
    write: (out, values) => {
      out.whole(values.length);
      for (const value of values) each.write(out, value);
    },
    read: (from, name) => {
      const values: T[] = [];
      for (let count = from.count(name); count > 0; count--) values.push(each.read(from, name));
      return values;
    },
  };
}

/** @param most entries that there may be: each takes more memory than bytes of a frame */
export function map<Key, Value>(key: Codec<Key>, value: Codec<Value>, most: number): Codec<ReadonlyMap<Key, Value>> {
  return {
    write: (out, entries) => {
      out.whole(entries.size);
      for (const [each, its] of entries) {
        key.write(out, each);
        value.write(out, its);
      }
    },
    read: (from, name) => {
      const entries = new Map<Key, Value>();
      const all = from.count(name);
      if (all > most) throw new PeerError(`${name}: found ${all} entries, expected at most ${most}`);
      for (let count = all; count > 0; count--) {
        const each = key.read(from, name);
        if (entries.has(each)) throw new PeerError(`${name}: found ${found(each)} a second time, expected it once`);
        entries.set(each, value.read(from, name));
      }
      return entries;
    },
  };
}

export function optional<T>(codec: Codec<T>): OptionalCodec<T> {
  return { optional: codec };
}

/** An object: its members in order, before one that may be left out whether it is there. */
export function record<T extends object>(members: MemberCodecs<T>): Codec<T> {
  const all = Object.entries<Codec<unknown> | OptionalCodec<unknown>>(members);
  return {
    write: (out, value) => {
      for (const [name, codec] of all) {
        const member: unknown = value[name as keyof T];
        if ('write' in codec) codec.write(out, member);
        else {
          truth.write(out, member !== undefined);
          if (member !== undefined) codec.optional.write(out, member);
        }
      }
    },
    read: (from, name) => {
      const value: Record<string, unknown> = {};
      for (const [member, codec] of all) {
        const where = `${name}.${member}`;
        if ('read' in codec) value[member] = codec.read(from, where);
        else if (truth.read(from, where)) value[member] = codec.optional.read(from, where);
      }
      return value as T;
    },
  };
}
