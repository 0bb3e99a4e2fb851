package boundjson_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/skerry-ft/skerry/internal/boundjson"
)

// read reads an object of texts and lists of numbers.
func read(text string, most int64) (map[string]any, error) {
	d := boundjson.NewDecoder(strings.NewReader(text), most)
	got := make(map[string]any)
	err := d.Object("object", 3, func(name string) error {
		if name == "list" {
			var all []int
			err := d.List("list", 4, func(int) error {
				all = append(all, 0)
				return d.Value("number", 8, &all[len(all)-1])
			})
			got[name] = all
			return err
		}
		var s string
		err := d.Text(name, 10, &s)
		got[name] = s
		return err
	})
	if err == nil {
		err = d.End()
	}
	return got, err
}

func TestDecoder(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		`{}`, ` {"a":"b"} `, `{"a":"1234567890","list":[1,2,3,4]}`, `{"list":null}`, `null`, `{"a":"\u0001\u0001\u0001\u0001\u0001\u0001\u0001\u0001\u0001\u0001"}`,
	} {
		if _, err := read(good, int64(len(good))); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, c := range []struct{ text, want string }{
		{``, "object: unexpected EOF"},
		{`[]`, `object: "[", want {`},
		{`{"a":"12345678901"}`, "a has 11 bytes, want at most 10"},
		{`{"a":"` + strings.Repeat("x", 1000) + `"}`, "a has over 62 bytes"},
		{`{"a":"b","a":"c"}`, `object: field "a" stands twice`},
		{`{"a":"","b":"","c":"","d":""}`, "object: over 3 fields"},
		{`{"list":[1,2,3,4,5]}`, "list: over 4"},
		{`{"list":["x"]}`, "number: json: cannot unmarshal"},
		{`{"list":[` + strings.Repeat("1", 1000), "number has over 8 bytes"},
		{`{"list":{}}`, `list: "{", want [`},
		{`{"a":"b"`, "object: unexpected EOF"},
		{`{}{}`, "something follows the text"},
		{`{"a":"b"` + strings.Repeat(" ", 100<<10) + `}`, "object has over 16384 bytes"},
		{`{"` + strings.Repeat("x", 100<<10) + `":1}`, "a name in object has over 16384 bytes"},
	} {
		if got, err := read(c.text, 1<<30); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60s: %v, %v; want an error with %q", c.text, got, err, c.want)
		}
	}
	if _, err := read(`{"a":"b"}`, 8); err == nil || !strings.Contains(err.Error(), "over 8 bytes in all") {
		t.Errorf("a byte too many: %v", err)
	}
}

// FuzzDecoder: what is read is what encoding/json reads.
func FuzzDecoder(f *testing.F) {
	f.Add(`{"a":"b","list":[1,2]}`)
	f.Add(`{"list":null,"b":"\ud800"}`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := read(text, 1<<20)
		if err != nil {
			return
		}
		var want map[string]any
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatalf("%q is read as %v, encoding/json: %v", text, got, err)
		}
		if len(got) != len(want) {
			t.Fatalf("%q is read as %v, want %v", text, got, want)
		}
		for name, v := range want {
			switch v := v.(type) {
			case string:
				if got[name] != v {
					t.Errorf("%q: %s is %q, want %q", text, name, got[name], v)
				}
			case []any:
				if list, _ := got[name].([]int); len(list) != len(v) {
					t.Errorf("%q: %s is %v, want %v", text, name, got[name], v)
				}
			}
		}
	})
}

// An error repeats the beginning of what was wrong.
func TestErrorsAreShort(t *testing.T) {
	t.Parallel()
	d := boundjson.NewDecoder(strings.NewReader(strings.Repeat("1", 10<<10)+" "), 1<<20)
	var n int
	if err := d.Value("number", 1<<20, &n); err == nil || len(err.Error()) > 400 || !strings.Contains(err.Error(), "cannot unmarshal number 111") {
		t.Errorf("%.1000v", err)
	}
}
