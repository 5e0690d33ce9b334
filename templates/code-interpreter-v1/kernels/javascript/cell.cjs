'use strict'
// A cell's text as the REPL can run it again and again: types removed, imports turned into awaited
// ones, declarations at the top level into `var`, so that a cell that is run twice does not fail at its
// own names. Names of packages become what `locate` makes of them (packages.mjs). Positions come from
// sucrase's parser, never from patterns.
const { transform } = require('sucrase')
const { parse } = require('sucrase/dist/parser')
const { TokenType: tt } = require('sucrase/dist/parser/tokenizer/types')

function withoutTypes(code) {
  const options = { transforms: ['typescript'], disableESTransforms: true, keepUnusedImports: true }
  return transform(code, options).code
}

// The names that an import brings, as a pattern: `a, { b as c }` is { default: a, b: c }.
function importPattern(words) {
  const parts = []
  let whole = null
  for (let i = 0; i < words.length; i++) {
    if (words[i] === '*') {
      whole = words[(i += 2)]
    } else if (words[i] === '{') {
      for (i++; words[i] !== '}'; i++) {
        if (words[i] === ',') continue
        if (words[i + 1] === 'as') {
          parts.push(`${words[i]}: ${words[i + 2]}`)
          i += 2
        } else {
          parts.push(words[i])
        }
      }
    } else if (words[i] !== ',') {
      parts.push(`default: ${words[i]}`)
    }
  }
  return { whole, pattern: parts.length ? `{ ${parts.join(', ')} }` : null }
}

// The semicolon keeps what follows apart: an import ends with its line whatever the next begins with.
function importText(words, source, attributes) {
  const loaded = `await import(${source}${attributes ? `, { with: ${attributes} }` : ''})`
  const { whole, pattern } = importPattern(words)
  if (whole && pattern) return `var ${whole} = ${loaded}; var ${pattern} = ${whole};`
  return whole || pattern ? `var ${whole || pattern} = ${loaded};` : `void ${loaded};`
}

class Rewriter {
  constructor(code, locate) {
    this.code = code
    this.locate = locate
    this.tokens = parse(code, false, false, false).tokens
    this.edits = [] // { start, end, text }, in order
  }

  text(i) {
    return this.code.slice(this.tokens[i].start, this.tokens[i].end)
  }

  is(i, type) {
    return this.tokens[i] !== undefined && this.tokens[i].type === type
  }

  replace(first, last, text) {
    this.edits.push({ start: this.tokens[first].start, end: this.tokens[last].end, text })
  }

  // The index of the brace that closes the one at i.
  closing(i) {
    let depth = 0
    do {
      if (this.is(i, tt.braceL) || this.is(i, tt.dollarBraceL)) depth++
      if (this.is(i, tt.braceR)) depth--
      i++
    } while (depth > 0 && i < this.tokens.length)
    return i - 1
  }

  // The string at i, as an import takes it.
  source(i) {
    const text = this.text(i)
    return text.includes('\\') ? text : JSON.stringify(this.locate(text.slice(1, -1)))
  }

  // import ... from 'x'; returns the index of its last token.
  importAt(i) {
    const words = []
    let at = i + 1
    for (; !this.is(at, tt.string); at++) {
      if (this.is(at, tt.eof)) return i
      words.push(this.text(at))
    }
    if (words[words.length - 1] === 'from') words.pop()
    let last = at
    let attributes = ''
    if (this.is(at + 1, tt._with) && this.is(at + 2, tt.braceL)) {
      last = this.closing(at + 2)
      attributes = this.code.slice(this.tokens[at + 2].start, this.tokens[last].end)
    }
    this.replace(i, last, importText(words, this.source(at), attributes))
    return last
  }

  isStatement(i) {
    if (i === 0 || this.is(i - 1, tt.semi) || this.is(i - 1, tt.braceR) || this.is(i - 1, tt._export)) return true
    const gap = this.code.slice(this.tokens[i - 1].end, this.tokens[i].start)
    const ends = [tt.name, tt.string, tt.num, tt.parenR, tt.bracketR, tt.backQuote]
    return gap.includes('\n') && ends.includes(this.tokens[i - 1].type)
  }

  // class A {} becomes var A = class A {};
  classAt(i) {
    let body = i
    for (let depth = 0; depth > 0 || !this.is(body, tt.braceL); body++) {
      if (this.is(body, tt.eof)) return
      if (this.is(body, tt.parenL)) depth++
      if (this.is(body, tt.parenR)) depth--
    }
    const last = this.closing(body)
    this.replace(i, i, `var ${this.text(i + 1)} = class`)
    this.edits.push({ start: this.tokens[last].end, end: this.tokens[last].end, text: ';' })
  }

  // `export` says nothing here; what it exports stays.
  exportAt(i) {
    if (this.is(i + 1, tt._default)) {
      this.replace(i, i + 1, '')
    } else if (this.is(i + 1, tt.braceL)) {
      this.replace(i, this.closing(i + 1), '')
    } else {
      this.replace(i, i, '')
    }
  }

  rewrite() {
    for (let i = 0; i < this.tokens.length; i++) {
      const { type, scopeDepth } = this.tokens[i]
      if (type === tt._import && this.is(i + 1, tt.parenL) && this.is(i + 2, tt.string)) {
        this.replace(i + 2, i + 2, this.source(i + 2))
      }
      if (scopeDepth > 0) continue
      if (type === tt._import && !this.is(i + 1, tt.parenL) && !this.is(i + 1, tt.dot)) i = this.importAt(i)
      else if (type === tt._export) this.exportAt(i)
      else if (type === tt._const || type === tt._let) this.replace(i, i, 'var')
      else if (type === tt._class && this.is(i + 1, tt.name) && this.isStatement(i)) this.classAt(i)
    }
    let out = ''
    let at = 0
    for (const { start, end, text } of this.edits.sort((a, b) => a.start - b.start)) {
      out += this.code.slice(at, start) + text
      at = end
    }
    return out + this.code.slice(at)
  }
}

// Code that cannot be read is given as it is: the REPL says what is wrong with it.
function prepare(code, typescript, locate) {
  const plain = typescript ? withoutTypes(code) : code
  try {
    return new Rewriter(plain, locate).rewrite()
  } catch {
    return plain
  }
}

module.exports = { prepare }
