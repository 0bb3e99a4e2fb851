package report

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/skerry-ft/skerry/cmd/internal/cli"
	"github.com/skerry-ft/skerry/cmd/skerry/internal/chaos/plan"
	"github.com/skerry-ft/skerry/internal/printable"
)

// The drawing's places, in its units.
const (
	width, height    = 1000, 400
	left, right      = 60, 970
	marksY           = 84 // of faults
	ratesY, ratesH   = 110, 130
	trainsY, trainsH = 270, 80
	bins             = 160 // of the steps a second, at most
	labelled         = 30  // faults that have a number each, at most
)

// colours of the kinds of fault.
var colours = map[string]string{
	string(plan.Kill): "#c62828", string(plan.Stop): "#6a1b9a", string(plan.Rank): "#d81b60", string(plan.Link): "#1565c0",
	string(plan.Disk): "#6d4c41", string(plan.Lighthouse): "#ef6c00",
}

// drawing writes an SVG.
type drawing struct {
	strings.Builder

	r        Report
	from, to int64 // milliseconds
}

// SVG draws the run: over one axis of time the faults, the steps a second, and how many
// replicas train. It needs nothing beside itself.
func (r Report) SVG() string {
	d := &drawing{r: r, from: r.StartedMs, to: r.StartedMs + max(r.WallMs, 1)}
	d.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="system-ui, sans-serif" font-size="12" role="img">`,
		width, height, width, height)
	title := fmt.Sprintf("job %s: %s, %s, goodput %.1f %%", printable.Line(r.Job), cli.Plural(len(r.Faults), "fault"), r.stalls(), 100*r.Goodput)
	d.add(`<title>%s</title><rect width="100%%" height="100%%" fill="#fff"/>`, title)
	d.add(`<text x="%d" y="24" font-size="16" font-weight="600" fill="#111">%s</text>`, left, title)
	d.legend()
	d.bands()
	d.axis()
	d.rates()
	d.trains()
	d.marks()
	d.add("</svg>")
	return d.String()
}

func (r Report) stalls() string {
	if r.Stalls == 0 {
		return "no stall"
	}
	return cli.Plural(r.Stalls, "stall")
}

// add writes a line; texts and attributes of args are escaped.
func (d *drawing) add(format string, args ...any) {
	for i, a := range args {
		if s, ok := a.(string); ok {
			var b strings.Builder
			_ = xml.EscapeText(&b, []byte(s)) // a Builder never fails
			args[i] = b.String()
		}
	}
	fmt.Fprintf(d, format+"\n", args...)
}

// x is where a moment is drawn.
func (d *drawing) x(ms int64) float64 {
	share := float64(ms-d.from) / float64(d.to-d.from)
	return left + (right-left)*min(max(share, 0), 1)
}

// legend names the colours that are there.
func (d *drawing) legend() {
	x := left
	for _, k := range plan.Kinds() {
		n := 0
		for _, f := range d.r.Faults {
			if f.Kind == string(k) {
				n++
			}
		}
		if n == 0 {
			continue
		}
		text := fmt.Sprintf("%s × %d", k, n)
		d.add(`<circle cx="%d" cy="44" r="5" fill="%s"/><text x="%d" y="48" fill="#333">%s</text>`, x+5, colours[string(k)], x+15, text)
		x += 40 + 7*len(text)
	}
	d.add(`<rect x="%d" y="38" width="12" height="12" fill="#ef9a9a"/><text x="%d" y="48" fill="#333">no step yet</text>`, x, x+17)
	d.add(`<rect x="%d" y="38" width="12" height="12" fill="#fff3c4"/><text x="%d" y="48" fill="#333">fewer replicas than before</text>`, x+100, x+117)
}

// bands are the times in which the job was not back.
func (d *drawing) bands() {
	band := func(from, to int64, colour string) {
		if to > from {
			d.add(`<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`, d.x(from), ratesY, max(d.x(to)-d.x(from), 1), trainsY+trainsH-ratesY, colour)
		}
	}
	for _, f := range d.r.Faults {
		resumed, whole := f.AtMs+f.ResumedMs, f.AtMs+f.WholeMs
		if f.ResumedMs == 0 {
			resumed = d.to
		}
		if f.WholeMs == 0 {
			whole = d.to
		}
		band(resumed, whole, "#fff3c4")
		band(f.AtMs, resumed, "#ef9a9a")
	}
}

// ticks are steps of time that people count in, in seconds.
var ticks = []int64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400}

// axis is that of time.
func (d *drawing) axis() {
	span := (d.to - d.from) / 1000
	every := ticks[len(ticks)-1]
	for _, t := range ticks {
		if span/t <= 12 {
			every = t
			break
		}
	}
	bottom := trainsY + trainsH
	for s := int64(0); s <= span; s += every {
		x := d.x(d.from + 1000*s)
		d.add(`<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#e4e4e4"/>`, x, ratesY, x, bottom)
		d.add(`<text x="%.1f" y="%d" text-anchor="middle" fill="#555">%s</text>`, x, bottom+18, (time.Duration(s) * time.Second).String())
	}
	started := time.UnixMilli(d.from).Format("2006-01-02 15:04:05")
	d.add(`<text x="%d" y="%d" text-anchor="end" fill="#777">since %s, seed %s</text>`, right, bottom+38, started, fmt.Sprint(d.r.Seed))
}

// scale draws the left axis of a part, from 0 to most, and returns where a value is.
func (d *drawing) scale(name string, y, h int, most float64) func(float64) float64 {
	at := func(v float64) float64 { return float64(y+h) - float64(h)*min(v/most, 1) }
	d.add(`<text x="%d" y="%d" fill="#333">%s</text>`, left, y-6, name)
	for _, v := range []float64{0, most / 2, most} {
		d.add(`<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#ccc"/>`, left, at(v), right, at(v))
		d.add(`<text x="%d" y="%.1f" text-anchor="end" fill="#555">%s</text>`, left-6, at(v)+4, fmt.Sprintf("%.3g", v))
	}
	return at
}

// rates draws the steps a second.
func (d *drawing) rates() {
	rates, most := d.binned()
	at := d.scale("steps a second", ratesY, ratesH, niceAbove(most))
	var path strings.Builder
	for i, rate := range rates {
		begin, end := d.binEdge(i, len(rates)), d.binEdge(i+1, len(rates))
		letter := "L"
		if i == 0 {
			letter = "M"
		}
		fmt.Fprintf(&path, "%s%.1f %.1fL%.1f %.1f", letter, d.x(begin), at(rate), d.x(end), at(rate))
	}
	if path.Len() > 0 {
		d.add(`<path d="%s" fill="none" stroke="#2e7d32" stroke-width="1.5"/>`, path.String())
	}
}

func (d *drawing) binEdge(i, n int) int64 { return d.from + (d.to-d.from)*int64(i)/int64(n) }

// binned are the rates of equal times, each long enough for some steps and some looks.
func (d *drawing) binned() (rates []float64, most float64) {
	points := d.r.Timeline
	if len(points) < 2 {
		return nil, 0
	}
	least := max(1000, 2*d.r.StepMs)
	n := min(max(int(float64(d.to-d.from)/least), 1), bins)
	for i := range n {
		begin, end := d.binEdge(i, n), d.binEdge(i+1, n)
		rate := (d.stepAt(end) - d.stepAt(begin)) / float64(max(end-begin, 1)) * 1000
		rates = append(rates, rate)
		most = max(most, rate)
	}
	return rates, most
}

// stepAt is how far the job was at a moment, between two looks in proportion.
func (d *drawing) stepAt(ms int64) float64 {
	points := d.r.Timeline
	for i, p := range points {
		if p.AtMs < ms {
			continue
		}
		if i == 0 || p.AtMs == points[i-1].AtMs {
			return float64(p.Step)
		}
		before := points[i-1]
		share := float64(ms-before.AtMs) / float64(p.AtMs-before.AtMs)
		return float64(before.Step) + share*float64(p.Step-before.Step)
	}
	return float64(points[len(points)-1].Step)
}

// niceAbove is a round number at or above v.
func niceAbove(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*unit >= v {
			return m * unit
		}
	}
	return 10 * unit
}

// trains draws how many replicas train.
func (d *drawing) trains() {
	most := 1
	for _, p := range d.r.Timeline {
		most = max(most, p.Trains)
	}
	at := d.scale("replicas that train", trainsY, trainsH, float64(most+most%2))
	var path strings.Builder
	for i, p := range d.r.Timeline {
		if i == 0 {
			fmt.Fprintf(&path, "M%.1f %.1f", d.x(p.AtMs), at(float64(p.Trains)))
			continue
		}
		fmt.Fprintf(&path, "H%.1fV%.1f", d.x(p.AtMs), at(float64(p.Trains)))
	}
	if path.Len() > 0 {
		fmt.Fprintf(&path, "H%.1f", d.x(d.to))
		d.add(`<path d="%s" fill="none" stroke="#1565c0" stroke-width="1.5"/>`, path.String())
	}
}

// marks are the faults, each with what it was as a title that browsers show.
func (d *drawing) marks() {
	for _, f := range d.r.Faults {
		x := d.x(f.AtMs)
		about := fmt.Sprintf("%d: %s, %s", f.Number, f.text, f.How)
		if f.ResumedMs > 0 {
			about += fmt.Sprintf("; a step after %d ms", f.ResumedMs)
		}
		if f.Told != nil {
			about += "; " + f.Told.Text
		}
		d.add(`<g><title>%s</title>`, printable.Line(about))
		d.add(`<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="%s" stroke-opacity="0.55" stroke-dasharray="3 3"/>`, x, marksY, x, trainsY+trainsH, colours[f.Kind])
		d.add(`<circle cx="%.1f" cy="%d" r="6" fill="%s"/>`, x, marksY, colours[f.Kind])
		if len(d.r.Faults) <= labelled {
			d.add(`<text x="%.1f" y="%d" text-anchor="middle" font-size="10" fill="#333">%s</text>`, x, marksY-9, fmt.Sprint(f.Number))
		}
		d.add(`</g>`)
	}
}
