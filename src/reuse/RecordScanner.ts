import { HEAD_BYTES, isWhole, keyOf, MARKER, MOST_RECORD_BYTES, recordBytes } from './record.js';

/**
 * The parts of a file that are no whole record. A record at its end that is not whole yet does not count: somebody may
 * be writing it.
 */
export interface Damage {
  readonly bytes: number;
  /** Where the first of it is. */
  readonly offset: number;
}

/**
 * Finds the whole records of a file in pieces of it. After what is no whole record (somebody was ended while he wrote
 * it, or the disk lost it) it goes on with the next marker. Pure.
 */
export class RecordScanner {
  #position: number;
  #needed = HEAD_BYTES;
  /** End of the last whole record. */
  #end: number;
  /** The first record after that that goes beyond the file's end. */
  #open: number | undefined;
  #damagedBytes = 0;
  #damagedAt: number | undefined;
  /** Bytes of which a check has failed. */
  #vainBytes = 0;

  /**
   * @param from where records may begin
   * @param fileBytes how far the file goes
   * @param onRecord gets each record's key, which is valid during the call, and where the record begins
   */
  constructor(
    from: number,
    private readonly fileBytes: number,
    private readonly onRecord: (key: Buffer, offset: number) => void,
  ) {
    this.#position = this.#end = from;
  }

  /** Where the next piece has to begin; the file's end when all has been seen. */
  get position(): number {
    return this.#position;
  }

  /** Bytes that the next piece has to have at least, unless the file ends before. */
  get neededBytes(): number {
    return Math.min(this.#needed, this.fileBytes - this.#position);
  }

  /** When all has been seen: where to go on when the file has grown. What begins there may be whole by then. */
  get resumeAt(): number {
    return this.#open ?? this.fileBytes;
  }

  /** When all has been seen. */
  get damage(): Damage | undefined {
    const rest = (this.#open ?? this.fileBytes) - this.#end;
    const bytes = this.#damagedBytes + rest;
    return bytes === 0 ? undefined : { bytes, offset: this.#damagedAt ?? this.#end };
  }

  /** @param piece of the file, from `position` on, at least `neededBytes` long */
  take(piece: Buffer): void {
    this.#needed = HEAD_BYTES;
    const start = this.#position;
    let at = 0;
    for (;;) {
      const marker = piece.indexOf(MARKER, at);
      if (marker < 0) break;
      const rest = piece.subarray(marker);
      const bytes = rest.length < HEAD_BYTES ? HEAD_BYTES : recordBytes(rest);
      at = marker + 1;
      if (bytes === undefined) continue;
      if (start + marker + bytes > this.fileBytes) {
        this.#open ??= start + marker;
      } else if (bytes > rest.length) {
        this.#position = start + marker;
        this.#needed = bytes;
        return;
      } else if (isWhole(rest.subarray(0, bytes))) {
        this.#note(rest, start + marker, bytes);
        at = marker + bytes;
      } else {
        this.#vainBytes += bytes;
        // Records inside of records that fail, as nobody writes who does not want to keep us busy: the rest is left
        // out.
        if (this.#vainBytes > 2 * this.fileBytes + MOST_RECORD_BYTES) {
          this.#position = this.fileBytes;
          return;
        }
      }
    }
    if (start + piece.length < this.fileBytes) {
      this.#position = start + Math.max(at, piece.length - MARKER.length + 1);
      return;
    }
    const begun = begunMarker(piece.subarray(at));
    if (begun > 0) this.#open ??= this.fileBytes - begun;
    this.#position = this.fileBytes;
  }

  #note(record: Buffer, offset: number, bytes: number): void {
    if (offset > this.#end) {
      this.#damagedBytes += offset - this.#end;
      this.#damagedAt ??= this.#end;
    }
    this.#end = offset + bytes;
    this.#open = undefined;
    this.onRecord(keyOf(record), offset);
  }
}

/** How many bytes of a marker stand at the end of a piece. */
function begunMarker(piece: Buffer): number {
  for (let bytes = Math.min(MARKER.length - 1, piece.length); bytes > 0; bytes -= 1) {
    if (piece.subarray(piece.length - bytes).equals(MARKER.subarray(0, bytes))) return bytes;
  }
  return 0;
}
