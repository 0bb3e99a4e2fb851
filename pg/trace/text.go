package trace

import (
	"fmt"
	"io"
	"strings"

	"github.com/skerry-ft/skerry/internal/printable"
)

// WriteText says what g's dumps say, for people. What is not printable in their
// texts is escaped.
func (g *Group) WriteText(w io.Writer) error {
	var s strings.Builder
	fmt.Fprintf(&s, "group %s, quorum %d of %s, group rank %d: dumps of %d of %d ranks\n",
		printable.Line(g.Name), g.QuorumID, printable.Line(g.Cluster), g.GroupRank, len(g.Dumped), len(g.ReplicaIDs))
	if len(g.Silent) > 0 {
		fmt.Fprintf(&s, "  no dump of %s: dead, stuck, or its files are not here\n", printable.Line(g.names(g.Silent)))
	}
	for _, r := range g.Dumped {
		fmt.Fprintf(&s, "  %s: %d collectives", printable.Line(g.names([]int{r})), g.Last[r])
		if cause, ok := g.Causes[r]; ok {
			fmt.Fprintf(&s, "; broken by: %s", printable.Line(cause))
		}
		s.WriteByte('\n')
	}
	for _, f := range g.Findings {
		fmt.Fprintf(&s, "  %s: %s\n", strings.ToUpper(string(f.Kind)), printable.Line(f.Text))
	}
	if len(g.Findings) == 0 {
		s.WriteString("  nothing is wrong between the ranks that dumped\n")
	}
	_, err := io.WriteString(w, s.String())
	return err
}
