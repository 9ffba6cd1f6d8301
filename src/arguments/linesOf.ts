/** The lines of a message without blanks around them, and none that has nothing else; goes through it once. */
export function linesOf(message: string): readonly string[] {
  return message
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
}
