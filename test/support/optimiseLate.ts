import { setFlagsFromString } from 'node:v8';

// V8 optimises a function once it has run for a while, and each suite begins with functions of its own: most of them
// end before that has paid. So much later a suite takes a sixth less of the processor's time.
setFlagsFromString('--interrupt-budget=500000');
