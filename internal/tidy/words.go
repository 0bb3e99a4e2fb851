package tidy

import (
	"go/ast"
	"regexp"
	"strings"
	"unicode"
)

// refused are words of a dialect, with what an engineer of the field would write.
var refused = map[string]string{
	"ails":     "say what is wrong with it",
	"bereave":  "lost",
	"covenant": "record",
	"doom":     "deferred break",
	"forsaken": "lost",
	"heed":     "receive, or ignore",
	"knell":    "death watch",
	"reign":    "leadership",
}

// people are words for persons. A subject is the thing itself: the replica, the peer,
// the caller. There are many yet; they may only become fewer.
var people = regexp.MustCompile(`(?i)\b(nobody|whoever|somebody|anybody)\b`)

// peopleUnit is in how many places one unit of a package's debt is, so that not every
// commit has to touch the ratchet.
const peopleUnit = 10

var proseWord = regexp.MustCompile(`[A-Za-z]+`)

// checkWords refuses words in comments and identifiers, and counts those for persons
// by package.
func (t *tree) checkWords() []Problem {
	var problems []Problem
	persons := make(map[string]int)
	for _, f := range t.files {
		if f.generated || f.under(tidied) {
			continue
		}
		for _, group := range f.ast.Comments {
			for _, c := range group.List {
				if !f.test {
					persons[f.dir] += len(people.FindAllString(c.Text, -1))
				}
				for _, word := range proseWord.FindAllString(c.Text, -1) {
					problems = t.refuse(problems, f, c, word)
				}
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				problems = t.refuse(problems, f, id, id.Name)
			}
			return true
		})
	}
	for dir, n := range persons {
		units := n / peopleUnit
		if units == 0 {
			continue
		}
		problems = append(problems, Problem{
			Rule: "persons", Path: dir, Name: "-", Line: 1, Size: units,
			What: "comments speak of nobody, whoever, somebody, anybody in more places than before; name the thing: the replica, the peer, the caller",
		})
	}
	return problems
}

// refuse adds a problem if a word, or a part of an identifier, is refused.
func (t *tree) refuse(problems []Problem, f *file, n ast.Node, word string) []Problem {
	for _, part := range camelParts(word) {
		if better, ok := refused[part]; ok {
			problems = append(problems, t.problem("word", f, n, "%q is no word of the field; write: %s", part, better))
		}
	}
	return problems
}

// camelParts are the words of an identifier, in small letters.
func camelParts(name string) []string {
	var parts []string
	start := 0
	for i, r := range name {
		if i > start && (unicode.IsUpper(r) || r == '_') {
			parts = append(parts, strings.ToLower(strings.Trim(name[start:i], "_")))
			start = i
		}
	}
	return append(parts, strings.ToLower(strings.Trim(name[start:], "_")))
}
