import { UsageError } from '../errors/UsageError.js';

/**
 * Loads packages that are the user's to install, all of them. Bundlers are told their names by nobody, so that they do
 * not look for what may not be there.
 * @param what needs them
 * @throws UsageError that says how to install them
 */
export async function loadPeers(what: string, ...names: readonly string[]): Promise<readonly unknown[]> {
  try {
    return await Promise.all(names.map((name) => import(name) as Promise<unknown>));
  } catch (error) {
    const several = names.length > 1;
    throw new UsageError(
      `${what} needs the ${several ? 'packages' : 'package'} ${names.join(', ')}, which cannot be loaded: npm install ${names.join(' ')}`,
      { cause: error },
    );
  }
}
