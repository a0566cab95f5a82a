// Validates the pages of the JSON object on standard input; prints what is wrong, by rule and page.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const { HtmlValidate, StaticConfigLoader } = createRequire(process.cwd() + '/')('html-validate')

const rules = { extends: ['html-validate:standard', 'html-validate:a11y'] }
const validator = new HtmlValidate(new StaticConfigLoader(rules))
const wrong = []
for (const [path, page] of Object.entries(JSON.parse(readFileSync(0, 'utf8')))) {
  const report = await validator.validateString(page)
  for (const { messages } of report.results) {
    for (const each of messages) wrong.push(`${each.ruleId} ${path}:${each.line} ${each.message}`)
  }
}
process.stdout.write(JSON.stringify(wrong))
