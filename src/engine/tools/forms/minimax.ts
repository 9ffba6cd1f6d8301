import { sectionForm } from '../sectionForm.js';
import { taggedArguments } from '../taggedArguments.js';

/** MiniMax M2: `<minimax:tool_call>`, with `<invoke name="…"><parameter name="…">VALUE</parameter></invoke>` in it. */
export const minimax = sectionForm({
  name: 'minimax-m2',
  isIn: (template) => template.includes('<minimax:tool_call>') && template.includes('<invoke name='),
  trigger: '<minimax:tool_call>',
  section: ['<minimax:tool_call>\n', '</minimax:tool_call>'],
  between: '',
  begins: '<invoke name="',
  named: ['">\n'],
  ends: ['</invoke>\n'],
  arguments: taggedArguments({ begins: '<parameter name="', named: '">', ends: '</parameter>\n' }),
  markers: ['<minimax:tool_call>', '</minimax:tool_call>'],
});
