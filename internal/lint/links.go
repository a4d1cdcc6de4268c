package lint

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	linkTarget = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codeSpan   = regexp.MustCompile("`[^`]*`")
	notInSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// Links refuses links of Markdown files that lead to no file of the repository, or to no
// heading of one. It takes the content of every tracked file by name.
func Links(files map[string]string) []Finding {
	folders := map[string]bool{}
	for name := range files {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			folders[dir] = true
		}
	}
	var found []Finding
	for name, content := range files {
		if path.Ext(name) != ".md" {
			continue
		}
		for i, line := range prose(content) {
			for _, m := range linkTarget.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, ""), -1) {
				target, anchor, _ := strings.Cut(m[1], "#")
				if strings.Contains(target, ":") {
					continue // elsewhere
				}
				to := name
				if target != "" {
					to = path.Join(path.Dir(name), target)
				}
				page, known := files[to]
				switch {
				case !known && !folders[to]:
					found = append(found, Finding{name, i + 1, "links to " + m[1] + ", and there is no " + to})
				case anchor != "" && !slices.Contains(headings(page), anchor):
					found = append(found, Finding{name, i + 1, "links to " + m[1] + ", and no heading there has that name"})
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b Finding) int { return strings.Compare(a.File, b.File) })
	return found
}

// prose gives the lines of a document, those of fenced blocks empty.
func prose(content string) []string {
	lines := strings.Split(content, "\n")
	fenced := false
	for i, line := range lines {
		fence := strings.HasPrefix(line, "```")
		if fence {
			fenced = !fenced
		}
		if fence || fenced {
			lines[i] = ""
		}
	}
	return lines
}

// headings gives the anchors that the headings of a document have where it is shown.
func headings(content string) (anchors []string) {
	for _, line := range prose(content) {
		if text := strings.TrimLeft(line, "#"); text != line && strings.HasPrefix(text, " ") {
			slug := notInSlug.ReplaceAllString(strings.ToLower(strings.TrimSpace(text)), "")
			anchors = append(anchors, strings.ReplaceAll(slug, " ", "-"))
		}
	}
	return anchors
}
