package quorum_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/quorum"
)

// A printed quorum does not show its token.
func TestTokenHides(t *testing.T) {
	q := quorum.Quorum{ID: 7, Token: quorum.Token{0: 0xab, 15: 0xcd}}
	for _, text := range []string{fmt.Sprint(q), fmt.Sprintf("%+v", q), fmt.Sprintf("%#v", q), fmt.Sprint(q.Token)} {
		if strings.Contains(text, "171") || strings.Contains(text, "0xab") || !strings.Contains(text, "secret") {
			t.Errorf("the token shows: %s", text)
		}
	}
}
