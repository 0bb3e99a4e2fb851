package tidy

import (
	"go/ast"
	"go/token"
	"slices"
)

// verdictNames are the constants of package quorum that say what became of a step:
// votes, the outcomes of a tally, facts, the outcomes of a settlement.
var verdictNames = []string{
	"VoteNo", "VotePrepared", "VoteYes", "VoteBehind",
	"TallyPending", "TallyCommit", "TallyAbort", "TallyPrepared", "TallyBehind",
	"NoFact", "Committed", "Prepared", "GaveUp", "Refused",
	"NothingToSettle", "Forward", "Discard",
}

// weighsVerdicts are the files outside of quorum that may compare them, and why.
var weighsVerdicts = map[string]string{
	"internal/sim/checker/formed.go":      "the checkers judge from outside, and do not ask the code under test what is right",
	"internal/sim/checker/observation.go": "the same",
	"internal/sim/mutant.go":              "a mutant takes a rule out by what it is about",
}

// checkVerdicts wants what follows from a vote, a tally, a fact or a settlement to be
// said in quorum, once: a shell that compares one has a rule of its own, which no
// simulation runs. Tests may say what they expect.
func (t *tree) checkVerdicts() []Problem {
	var problems []Problem
	for _, f := range t.files {
		if f.dir == pureDir || f.test || f.generated || weighsVerdicts[f.path] != "" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			for _, e := range compared(n) {
				if f.selects(e, module+"/"+pureDir, verdictNames...) {
					problems = append(problems, t.problem("verdicts", f, e,
						"quorum.%s compared outside of quorum; let a method of quorum.Rank, or of the value, say what follows from it",
						e.(*ast.SelectorExpr).Sel.Name))
				}
			}
			return true
		})
	}
	return problems
}

// compared are the expressions that n compares with others.
func compared(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if slices.Contains([]token.Token{token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ}, n.Op) {
			return []ast.Expr{ast.Unparen(n.X), ast.Unparen(n.Y)}
		}
	case *ast.CaseClause:
		var all []ast.Expr
		for _, e := range n.List {
			all = append(all, ast.Unparen(e))
		}
		return all
	}
	return nil
}
