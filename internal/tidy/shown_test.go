package tidy

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// nameOfTest is what go test runs.
var nameOfTest = regexp.MustCompile(`^(Test|Example|Fuzz)[A-Za-z0-9_]*$`)

// tested looks up "dir/package.TestName" in the files of that package's tests.
func (s *symbolTable) tested(sign string) error {
	dir, rest := path.Split(sign)
	name, test, _ := strings.Cut(rest, ".")
	if !nameOfTest.MatchString(test) {
		return fmt.Errorf("%s is no test: want package.TestName", sign)
	}
	files, err := fs.Glob(s.root, dir+name+"/*_test.go")
	if err != nil {
		return fmt.Errorf("%s: %w", sign, err)
	}
	for _, file := range files {
		text, err := fs.ReadFile(s.root, file)
		if err != nil {
			return fmt.Errorf("%s: %w", sign, err)
		}
		if strings.Contains(string(text), "\nfunc "+test+"(") {
			return nil
		}
	}
	return fmt.Errorf("no test %s in %s: it was renamed, or is yet to be written", test, dir+name)
}
