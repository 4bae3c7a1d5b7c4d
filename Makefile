# The front door: `make` builds, `make demo` shows, `make check` tests. meson.build is the build.
B ?= build
HOURS ?= 1
# a line of progress on a terminal, elsewhere only what is wrong
ninja = ninja -C $(B) $$([ -t 1 ] || echo --quiet) programs

all:
	@tools/setup build
	@tools/configure $(B)
	@$(ninja)
	@echo "built $(B)/snipara-sandbox; next: make demo, or make install"

demo:
	@tools/setup demo
	@tools/configure $(B)
	@$(ninja)
	@SNP_BUILD=$(B) tools/demo

check:
	@tools/setup check
	@tools/test $(B)

check-all:
	@tools/setup check-all
	@tools/test $(B) all

valgrind:
	@tools/setup check-all
	@tools/configure $(B)
	@meson test -C $(B) --suite unit --timeout-multiplier 10 --print-errorlogs \
		--wrap='valgrind -q --error-exitcode=9 --leak-check=full --track-fds=yes --trace-children=no'

bench:
	@tools/setup check
	@tools/configure $(B)
	@$(ninja) snp-bench
	@SNP_BUILD=$(B) tools/bench

fuzz:
	@tools/setup check
	@tools/fuzz $(B) $(HOURS)

format:
	@find src agent include tests examples tools -name '*.[ch]' -exec clang-format -i {} +

install: all
	@tools/install install $(B)

uninstall:
	@tools/install uninstall $(B)

deb:
	@tools/setup deb
	@tools/configure $(B)
	@$(ninja)
	@tools/deb $(B)

dist: all
	@tools/dist $(B)

mcpb: all
	@tools/mcpb $(B) $(URL) $(NAME)

clean:
	@rm -rf $(B) $(B)-asan $(B)-faults $(B)-fuzz $(B)-aarch64*

.PHONY: all demo check check-all valgrind bench fuzz format install uninstall deb dist mcpb clean
