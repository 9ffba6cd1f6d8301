/** How the real chat templates write calls of tools, cut down to that; and what of it are control tokens. */
export interface ToolTemplate {
  readonly form: string;
  readonly template: string;
  readonly control: readonly string[];
  /** Texts that a parameter's value cannot have, for the form has no way to write them. */
  readonly without: readonly string[];
  /** Most calls in an answer. */
  readonly calls: number;
}

const HEAD =
  "{% if tools %}{{ '<|im_start|>system\\n' }}{% for tool in tools %}{{ tool | tojson }}{% endfor %}{{ '<|im_end|>\\n' }}{% endif %}" +
  "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' }}{% if message.content %}{{ message.content }}{% endif %}";
const TAIL =
  "{{ '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
const of = (
  form: string,
  calls: string,
  { control = [], without = [], calls: most = 3 }: Partial<Omit<ToolTemplate, 'form' | 'template'>> = {},
): ToolTemplate => ({
  form,
  template: `${HEAD}{% if message.tool_calls %}${calls}{% endif %}${TAIL}`,
  control,
  without,
  calls: most,
});
const EACH = '{% for call in message.tool_calls %}{% set call = call.function %}';
const DSML = '｜DSML｜';

export const TEMPLATES: readonly ToolTemplate[] = [
  of(
    'hermes',
    `${EACH}{{ '\\n<tool_call>\\n{"name": "' + call.name + '", "arguments": ' + call.arguments | tojson + '}\\n</tool_call>' }}{% endfor %}`,
  ),
  of(
    'qwen3-coder',
    `${EACH}{{ '\\n<tool_call>\\n<function=' + call.name + '>\\n' }}{% for name, value in call.arguments | items %}{{ '<parameter=' + name + '>\\n' }}` +
      `{{ value | tojson | safe if value is mapping or (value is sequence and value is not string) else value | string }}{{ '\\n</parameter>\\n' }}{% endfor %}{{ '</function>\\n</tool_call>' }}{% endfor %}`,
    { without: ['\n</parameter>'] },
  ),
  of(
    'llama3',
    `{% set call = message.tool_calls[0].function %}{{ '<|start_header_id|>' if false else '' }}{{ '{"name": "' + call.name + '", ' }}{{ '"parameters": ' }}{{ call.arguments | tojson }}{{ '}' }}`,
    { control: ['<|python_tag|>', '<|eom_id|>'], calls: 1 },
  ),
  of(
    'mistral',
    `{{ '[TOOL_CALLS][' }}{% for call in message.tool_calls %}{% set out = call.function | tojson %}{{ out[:-1] }}{{ ', "id": "' + call.id + '"}' }}{% if not loop.last %}{{ ', ' }}{% endif %}{% endfor %}{{ ']' }}`,
    { control: ['[TOOL_CALLS]'] },
  ),
  of(
    'mistral-args',
    "{% for call in message.tool_calls %}{{ '[TOOL_CALLS]' + call.function.name + '[CALL_ID]' + call.id + '[ARGS]' + call.function.arguments | tojson }}{% endfor %}",
    { control: ['[TOOL_CALLS]', '[CALL_ID]', '[ARGS]'] },
  ),
  of(
    'gpt-oss',
    "{% set call = message.tool_calls[0].function %}{{ ' to=functions.' + call.name + '<|channel|>commentary json<|message|>' + call.arguments | tojson + '<|call|>' }}",
    { control: ['<|start|>', '<|channel|>', '<|constrain|>', '<|message|>', '<|end|>', '<|call|>'], calls: 1 },
  ),
  of(
    'deepseek-v3',
    `{{ '<｜tool▁calls▁begin｜>' }}${EACH}{{ '<｜tool▁call▁begin｜>function<｜tool▁sep｜>' + call.name + '\\n\`\`\`json\\n' + call.arguments | tojson + '\\n\`\`\`<｜tool▁call▁end｜>' }}{% if not loop.last %}{{ '\\n' }}{% endif %}{% endfor %}{{ '<｜tool▁calls▁end｜>' }}`,
  ),
  of(
    'deepseek-v3.1',
    `{{ '<｜tool▁calls▁begin｜>' }}${EACH}{{ '<｜tool▁call▁begin｜>' + call.name + '<｜tool▁sep｜>' + call.arguments | tojson + '<｜tool▁call▁end｜>' }}{% endfor %}{{ '<｜tool▁calls▁end｜>' }}`,
    {
      control: [
        '<｜tool▁calls▁begin｜>',
        '<｜tool▁call▁begin｜>',
        '<｜tool▁sep｜>',
        '<｜tool▁call▁end｜>',
        '<｜tool▁calls▁end｜>',
      ],
    },
  ),
  ...(
    [
      ['deepseek-v3.2', 'function_calls'],
      ['deepseek-v4', 'tool_calls'],
    ] as const
  ).map(([form, section]) =>
    of(
      form,
      `{{ '\\n\\n<${DSML}${section}>\\n' }}${EACH}{{ '<${DSML}invoke name="' + call.name + '">\\n' }}{% for name, value in call.arguments.items() %}{{ '<${DSML}parameter name="' + name + '" string="' + ('true' if value is string else 'false') + '">' + (value if value is string else value | tojson) + '</${DSML}parameter>\\n' }}{% endfor %}{{ '</${DSML}invoke>\\n' }}{% endfor %}{{ '</${DSML}${section}>' }}`,
      { without: [`</${DSML}parameter>`] },
    ),
  ),
  of(
    'gemma4',
    `{% macro written(value) %}{% if value is string %}{{ '<|"|>' + value + '<|"|>' }}{% elif value is boolean %}{{ 'true' if value else 'false' }}{% elif value is mapping %}{{ '{' }}{% for key, own in value | dictsort %}{{ key }}:{{ written(own) }}{% if not loop.last %},{% endif %}{% endfor %}{{ '}' }}` +
      `{% elif value is sequence %}[{% for own in value %}{{ written(own) }}{% if not loop.last %},{% endif %}{% endfor %}]{% else %}{{ value }}{% endif %}{% endmacro %}` +
      `${EACH}{{ '<|tool_call>call:' + call.name }}{{ written(call.arguments) }}{{ '<tool_call|>' }}{% endfor %}`,
    { control: ['<|tool_call>', '<tool_call|>', '<|"|>', '<|tool_response>'], without: ['<|"|>'] },
  ),
  of(
    'functiongemma',
    `{% macro written(value) %}{% if value is string %}{{ '<escape>' + value + '<escape>' }}{% elif value is boolean %}{{ 'true' if value else 'false' }}{% elif value is mapping %}{{ '{' }}{% for key, own in value | dictsort %}{{ key }}:{{ written(own) }}{% if not loop.last %},{% endif %}{% endfor %}{{ '}' }}` +
      `{% elif value is sequence %}[{% for own in value %}{{ written(own) }}{% if not loop.last %},{% endif %}{% endfor %}]{% else %}{{ value }}{% endif %}{% endmacro %}` +
      `${EACH}{{ '<start_function_call>call:' + call.name }}{{ written(call.arguments) }}{{ '<end_function_call>' }}{% endfor %}`,
    { control: ['<start_function_call>', '<end_function_call>', '<escape>'], without: ['<escape>'] },
  ),
  of(
    'glm',
    `${EACH}{{ '\\n<tool_call>' + call.name + '\\n' }}{% for name, value in call.arguments.items() %}{{ '<arg_key>' + name + '</arg_key>\\n<arg_value>' + (value if value is string else value | tojson) + '</arg_value>\\n' }}{% endfor %}{{ '</tool_call>' }}{% endfor %}`,
    { without: ['</arg_value>'] },
  ),
  of(
    'glm-4.7',
    `${EACH}{{ '<tool_call>' + call.name }}{% for name, value in call.arguments.items() %}<arg_key>{{ name }}</arg_key><arg_value>{{ value if value is string else value | tojson }}</arg_value>{% endfor %}{{ '</tool_call>' }}{% endfor %}`,
    { without: ['</arg_value>'] },
  ),
  of(
    'minimax-m2',
    `{{ '<minimax:tool_call>\\n' }}${EACH}{{ '<invoke name="' + call.name + '">\\n' }}{% for name, value in call.arguments.items() %}{{ '<parameter name="' + name + '">' + (value if value is string else value | tojson) + '</parameter>\\n' }}{% endfor %}{{ '</invoke>\\n' }}{% endfor %}{{ '</minimax:tool_call>' }}`,
    { without: ['</parameter>'] },
  ),
  of(
    'kimi-k2',
    `{{ '<|tool_calls_section_begin|>' }}${EACH}{{ '<|tool_call_begin|>functions.' + call.name + ':' + loop.index0 | string + '<|tool_call_argument_begin|>' + call.arguments | tojson + '<|tool_call_end|>' }}{% endfor %}{{ '<|tool_calls_section_end|>' }}`,
    {
      control: [
        '<|tool_calls_section_begin|>',
        '<|tool_call_begin|>',
        '<|tool_call_argument_begin|>',
        '<|tool_call_end|>',
        '<|tool_calls_section_end|>',
      ],
    },
  ),
  of(
    'apriel',
    `{{ '\\n<tool_calls>[' }}${EACH}{{ '{"name": "' + call.name + '", "arguments": ' + call.arguments | tojson + '}' }}{% if not loop.last %}{{ ', ' }}{% endif %}{% endfor %}{{ ']</tool_calls>' }}`,
  ),
];
