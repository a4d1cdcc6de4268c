package conformance

func closeTests() []test {
	return []test{
		{"a close is idempotent and needs no content type", closeIdempotent},
		{"append-and-close is one step", appendAndClose},
		{"appends to a closed stream are 409 with its end", appendAfterClose},
		{"N13 closed stays closed", closedForGood},
		{"a refused close leaves the stream open", refusedClose},
		{"a closed stream can be deleted and made again", deleteClosed},
	}
}

func closeIdempotent(c *client) {
	for _, ctype := range []string{"", text, jsonType, "nonsense", "image/png"} {
		p := c.create("a", text, "x")
		tail := c.head(p).is(200).without("Stream-Closed").tail()
		for range 3 {
			c.post(p, ctype, "", closing()...).is(204).header("Stream-Closed", "true").header("Stream-Next-Offset", tail).body("")
		}
		c.head(p).is(200).header("Stream-Closed", "true").header("Stream-Next-Offset", tail)
		c.get(p, from(tail)).is(200).body("").header("Stream-Closed", "true").header("Stream-Up-To-Date", "true")
		c.get(p, fromNow).is(200).body("").header("Stream-Closed", "true").header("Stream-Up-To-Date", "true")
	}
}

func appendAndClose(c *client) {
	p := c.create("text", text, "a")
	r := c.post(p, text, "b", closing()...).is(204).header("Stream-Closed", "true")
	c.get(p, fromStart).is(200).body("ab").header("Stream-Closed", "true").header("Stream-Next-Offset", r.tail())
	p = c.create("json", jsonType, "")
	c.post(p, jsonType, "[1,2]", closing()...).is(204).header("Stream-Closed", "true")
	c.same("messages", c.messages(p), []string{"1", "2"})
}

func appendAfterClose(c *client) {
	p := c.create("a", text, "x")
	tail := c.closes(p)
	for range 2 {
		c.post(p, text, "y").refused(409).header("Stream-Closed", "true").header("Stream-Next-Offset", tail)
		c.post(p, text, "y", closing()...).refused(409).header("Stream-Closed", "true").header("Stream-Next-Offset", tail)
	}
	c.get(p, fromStart).is(200).body("x")
}

func closedForGood(c *client) {
	p := c.create("a", text, "x")
	tail := c.closes(p)
	for _, value := range []string{"false", "FALSE", "0", "", "no", "open"} {
		c.post(p, text, "y", "Stream-Closed", value).refused(409)
		c.put(p, text, "", "Stream-Closed", value).refused(409)
	}
	c.put(p, text, "").refused(409)
	c.put(p, text, "", closing("Stream-TTL", "5")...).refused(409)
	c.put(p, text, "other", closing()...).is(200).header("Stream-Closed", "true")
	c.post(p, text, "y", producer("p", 9, 0)...).refused(409)
	c.head(p).is(200).header("Stream-Closed", "true").header("Stream-Next-Offset", tail)
	c.get(p, fromStart).is(200).body("x").header("Stream-Closed", "true")
}

func refusedClose(c *client) {
	p := c.create("a", jsonType, "")
	c.post(p, jsonType, "{bad", closing()...).refused(400)
	c.post(p, jsonType, "[]", closing()...).refused(400)
	c.post(p, text, "x", closing()...).refused(409)
	c.post(p, "", "x", closing()...).refused(400)
	c.post(p, jsonType, "1", closing(producer("p", 0, 3)...)...).refused(409)
	c.post(p, "", "", closing("Producer-Id", "p")...).refused(400)
	c.head(p).is(200).without("Stream-Closed")
	c.post(p, jsonType, "1").is(204)
	c.same("messages", c.messages(p), []string{"1"})
}

func deleteClosed(c *client) {
	p := c.create("a", text, "x")
	c.closes(p)
	c.delete(p).is(204)
	c.get(p, fromStart).refused(404)
	c.post(p, "", "", closing()...).refused(404)
	c.put(p, text, "").is(201).without("Stream-Closed")
	c.post(p, text, "y").is(204)
	c.get(p, fromStart).is(200).body("y").without("Stream-Closed")
}
