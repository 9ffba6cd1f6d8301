/** How answers compare with what is known to be right. */
export interface TruthReport {
  /** The column that says what is right, and of which answer, where a row has several. */
  readonly column: string;
  readonly answer?: string;
  /** Rows of this run that were compared; those of which it is not known, and those that are errors, are not. */
  readonly rows: number;
  readonly unknown: number;
  readonly errors: number;
  readonly right: number;
  readonly accuracy: number;
  /** How often each answer was given, by what was right; of very many different ones the last count as `…`. */
  readonly confusion: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** The same counts of a cascade by the model that answered. */
  readonly models?: Readonly<Record<string, { readonly rows: number; readonly right: number }>>;
  /** Where answers say how sure the model was. */
  readonly calibration?: Calibration;
}

/** How often answers are right, by how sure the model was of them. */
export interface Calibration {
  /**
   * The expected calibration error (Naeini et al. 2015): how far accuracy is from confidence, the mean over ten bins of
   * equal width, each weighed by its rows.
   */
  readonly error: number;
  /** A bin has confidences from `from` up to `to`, the last one 1 as well; those without rows are left out. */
  readonly bins: readonly {
    readonly from: number;
    readonly to: number;
    readonly rows: number;
    readonly confidence: number;
    readonly accuracy: number;
  }[];
}
