package tidy

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Check holds the repository at root against all rules, with the debts of the
// ratchet allowed. The error is about reading, not about style.
func Check(root fs.FS, ratchet string) ([]Problem, error) {
	debts, err := parseRatchet(ratchet)
	if err != nil {
		return nil, err
	}
	problems, err := checkAll(root)
	if err != nil {
		return nil, err
	}
	problems = settle(problems, debts)
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
	})
	return problems, nil
}

func checkAll(root fs.FS) ([]Problem, error) {
	t, problems, err := load(root)
	if err != nil {
		return nil, err
	}
	for _, check := range []func() []Problem{
		t.checkImports, t.checkEdges, t.checkPurity, t.checkPackages, t.checkGenerated, t.checkSize, t.checkBanned, t.checkComments,
		t.checkVerdicts, t.checkWords, t.checkPackageSize,
	} {
		problems = append(problems, check()...)
	}
	missing, err := t.checkInvariants()
	if err != nil {
		return nil, err
	}
	idle, err := t.checkExports()
	return slices.Concat(problems, missing, idle), err
}

// ratchetPath is where debts stand.
const ratchetPath = "internal/tidy/ratchet.txt"

// debt names what is allowed: a rule, a file, a function or "-".
type debt struct{ rule, path, name string }

// allowance is the size of a debt, and its line in the ratchet.
type allowance struct{ size, line int }

// parseRatchet reads lines of "rule path name size"; # begins a comment.
func parseRatchet(text string) (map[debt]allowance, error) {
	debts := make(map[debt]allowance)
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if len(f) != 4 {
			return nil, fmt.Errorf("%s:%d: %d words, want rule path name size", ratchetPath, i+1, len(f))
		}
		size, err := strconv.Atoi(f[3])
		if err != nil || size <= 0 {
			return nil, fmt.Errorf("%s:%d: size %q, want a number over 0", ratchetPath, i+1, f[3])
		}
		debts[debt{f[0], f[1], f[2]}] = allowance{size, i + 1}
	}
	return debts, nil
}

// settle drops the problems that are known debts, and reports the debts that
// are smaller by now than the ratchet says. Problems of one debt add up.
func settle(problems []Problem, debts map[debt]allowance) []Problem {
	sum := make(map[debt]int)
	for _, p := range problems {
		sum[debt{p.Rule, p.Path, p.Name}] += p.Size
	}
	var left []Problem
	for _, p := range problems {
		d := debt{p.Rule, p.Path, p.Name}
		if sum[d] > debts[d].size {
			left = append(left, p)
		}
	}
	for d, a := range debts {
		if sum[d] >= a.size {
			continue
		}
		fix := "remove the line"
		if sum[d] > 0 {
			fix = fmt.Sprintf("write %d", sum[d])
		}
		left = append(left, Problem{Rule: "ratchet", Path: ratchetPath, Name: "-", Line: a.line, Size: 1,
			What: fmt.Sprintf("%s of %s %s is %d by now, not %d; %s", d.rule, d.path, d.name, sum[d], a.size, fix)})
	}
	return left
}
