// SPDX-License-Identifier: BSD-3-Clause
// Hold.java - a java program with real data in memory, for dump-pages
//
// java Hold.java app|data TARGET_MIB VARIANT [AVAIL_FILE]
//
// As hold.py. `app` holds a word index of the text files of /usr/include and
// /usr/share; `data` holds the package records of AVAIL_FILE as maps.

import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;

public class Hold {
	record Place(Path file, int line) { }

	static final List<Object> kept = new ArrayList<>();

	static long anonMib() throws IOException {
		for (String line : Files.readAllLines(
				Path.of("/proc/self/status")))
			if (line.startsWith("RssAnon:"))
				return Long.parseLong(
					line.replaceAll("\\D", "")) / 1024;
		return 0;
	}

	static <T> List<T> rotate(List<T> items, int variant) {
		List<T> turned = new ArrayList<>(items);
		Collections.rotate(turned,
			-(items.size() * (variant * 5 % 13) / 13));
		return turned;
	}

	static List<Path> files(String root) {
		try (Stream<Path> walk = Files.walk(Path.of(root))) {
			return walk.filter(Files::isRegularFile)
				.filter(Files::isReadable).sorted()
				.collect(Collectors.toList());
		} catch (IOException e) {
			return List.of();
		}
	}

	static void holdIndex(long target, int variant) throws IOException {
		Map<String, List<Place>> words = new HashMap<>();
		List<Path> names = new ArrayList<>(files("/usr/share"));
		names.addAll(files("/usr/include"));
		kept.add(words);
		for (Path name : rotate(names, variant)) {
			byte[] bytes = Files.size(name) > 1 << 20 ?
				new byte[0] : Files.readAllBytes(name);
			String text = new String(bytes, StandardCharsets.UTF_8);
			if (text.indexOf('\0') >= 0 || text.indexOf('\ufffd') >= 0)
				continue;
			List<String> lines = Arrays.asList(text.split("\n"));
			kept.add(Map.entry(name, lines));
			for (int at = 0; at < lines.size(); at++)
				for (String word : lines.get(at).split("\\W+"))
					words.computeIfAbsent(word,
						w -> new ArrayList<>())
						.add(new Place(name, at));
			if (anonMib() >= target)
				break;
		}
	}

	static Map<String, Object> parse(List<String> fields, int variant) {
		Map<String, Object> record = new LinkedHashMap<>();
		for (String field : fields) {
			String[] pair = field.split(": ?", 2);
			String text = pair.length > 1 ? pair[1] : "";
			boolean list = pair[0].matches(
				"Depends|Recommends|Suggests|Tag");
			record.put(pair[0], list ?
				Arrays.asList(text.split(", ?")) : text);
		}
		if (variant % 2 == 1)
			record.put("Words", Arrays.asList(
				String.join(" ", fields).split("\\s+")));
		return record;
	}

	static void holdRecords(long target, int variant, String avail)
			throws IOException {
		int number = 0;
		List<String> fields = new ArrayList<>();
		try (FileInputStream in = new FileInputStream(avail);
		     BufferedReader lines = new BufferedReader(
				new InputStreamReader(in,
					StandardCharsets.UTF_8))) {
			in.skip(in.getChannel().size() *
				(variant * 5 % 13) / 13);
			for (String line; (line = lines.readLine()) != null;) {
				int last = fields.size() - 1;
				if (line.startsWith(" ") && last >= 0) {
					fields.set(last, fields.get(last) +
						"\n" + line);
					continue;
				}
				if (!line.isEmpty()) {
					fields.add(line);
					continue;
				}
				kept.add(parse(fields, variant));
				fields.clear();
				if (++number % 64 == 0 && anonMib() >= target)
					break;
			}
		}
	}

	public static void main(String[] args) throws IOException {
		long target = Long.parseLong(args[1]);
		int variant = Integer.parseInt(args[2]);
		if (args[0].equals("app"))
			holdIndex(target, variant);
		else
			holdRecords(target, variant, args[3]);
		System.out.println("ready " + kept.size());
		while (System.in.read() >= 0)
			;
	}
}
