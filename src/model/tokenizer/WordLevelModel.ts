import type { TokenModel } from './TokenModel.js';

/** Each piece is one token of the vocabulary or the unknown one. Small models made for tests have it. */
export class WordLevelModel implements TokenModel {
  constructor(
    private readonly vocabulary: ReadonlyMap<string, number>,
    private readonly unknownToken: number | undefined,
  ) {}

  encode(piece: string, out: number[]): void {
    const id = this.vocabulary.get(piece) ?? this.unknownToken;
    if (id !== undefined) out.push(id);
  }
}
