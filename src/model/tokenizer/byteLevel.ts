/**
 * GPT-2's alphabet: each byte has a printable character, so that byte strings can be written as text. Printable Latin-1
 * stands for itself, the other bytes take the characters from U+0100 on, in order.
 */
const CHARACTER_OF_BYTE: readonly string[] = (() => {
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    return String.fromCharCode(printable ? byte : next++);
  });
})();

const BYTE_OF_CHARACTER: ReadonlyMap<string, number> = new Map(
  CHARACTER_OF_BYTE.map((character, byte) => [character, byte]),
);

const utf8 = new TextEncoder();

/** The UTF-8 bytes of `text`, in GPT-2's alphabet. */
export function toByteLevel(text: string): string {
  let result = '';
  for (const byte of utf8.encode(text)) result += CHARACTER_OF_BYTE[byte] ?? '';
  return result;
}

/** The bytes that `token` stands for; the token's own UTF-8 bytes if it has characters outside the alphabet. */
export function fromByteLevel(token: string): Uint8Array {
  const bytes = new Uint8Array(token.length);
  for (let i = 0; i < token.length; i++) {
    const byte = BYTE_OF_CHARACTER.get(token.charAt(i));
    if (byte === undefined) return utf8.encode(token);
    bytes[i] = byte;
  }
  return bytes;
}
