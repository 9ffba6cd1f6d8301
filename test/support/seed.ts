import fc from 'fast-check';

// The same random runs each time, so that a change is judged by what it changed. SPILLWAY_SEED=random (or a number)
// goes looking elsewhere; what fails there names the seed that reproduces it.
const seed = process.env['SPILLWAY_SEED'];
if (seed !== 'random')
  fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: seed === undefined ? 20_261_121 : Number(seed) });
