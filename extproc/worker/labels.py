"""Label values that must not grow with the input of clients: names of dropped features, and a cap for everything else
that does not come from the configuration.

Used by the metrics. The log keeps the names unchanged.
"""

from __future__ import annotations

import re

from extproc.bounds import bounded_cache

OTHER = "other"
"""Replaces every value without a series of its own."""

_NAMES = """
    action adaptive add_generation_prompt additional_tools allowed_callers allowed_tools allowedFunctionNames
    annotations anthropic-beta apply_patch apply_patch_call apply_patch_call_output args arguments assistant audio
    audio_url background bad_words bash betas block_binding budget_tokens cache cache_control cache_prompt call_id
    candidates category chat_template chat_template_kwargs choices citation_options citationMetadata citations
    clear_thinking client_metadata closed code_execution code_execution_tool_result code_interpreter
    code_interpreter_call codeExecution codeExecutionResult compaction compound_custom computer computer_call
    computer_call_output computer_use container container_upload content content_block contents context
    context_management continue_final_message conversation custom custom_tool_call custom_tool_call_output data
    defer_loading description detail disable_parallel_tool_use disable_tool_validation disabled display document
    document_name document_url documents dry_multiplier eager_input_streaming early_stopping echo effort enable_search
    enable_thinking enabled encrypted encrypted_content environment error exclude executableCode execution extra_body
    extra_content file file_data file_id file_name file_search file_search_call file_url fileData filename fileUri
    finish_reason format frequency_penalty frequency_penalty_decay frequencyPenalty function function_call
    function_call_output functionCall functionCallingConfig functionDeclarations functionResponse functions
    generate_summary generationConfig google google_search googleSearch grammar groundingMetadata guided_choice
    guided_grammar guided_json guided_regex id id_slot ids ignore_eos image image_generation image_generation_call
    image_url include include_reasoning include_usage includeThoughts incremental_output index inference_geo inlineData
    input input_audio input_examples input_file input_image input_schema input_text instructions is_error item_reference
    joined json_object json_schema keep_alive length_penalty local_shell local_shell_call local_shell_call_output
    logit_bias logprobs max_completion_tokens max_output_tokens max_tokens max_tool_calls maxOutputTokens mcp
    mcp_approval_request mcp_approval_response mcp_call mcp_list_tools mcp_servers mcp_tool_result mcp_tool_use
    mcp_toolset media_type memory message messages metadata mimeType min_p min_tokens mirostat mirostat_eta mirostat_tau
    missing modalities mode model models moderation moved n name namespace no_repeat_ngram_size openrouter operation
    options outline output output_config output_format output_schema output_text parallel_tool_calls parameters
    parametersJsonSchema parsed parsed_arguments partial parts phase plugins prediction prefill prefix
    prefix_mismatch_behavior presence_context_size presence_penalty presencePenalty preset previous_response_id prompt
    prompt_cache_breakpoint prompt_cache_key prompt_cache_options prompt_cache_retention provider random_seed reasoning
    reasoning_content reasoning_details reasoning_effort reasoning_format reasoning_text redacted redacted_thinking
    refusal regex repeat_penalty repeated repetition_penalty request response response_format responseJsonSchema
    responseMimeType responseSchema result_format retrieval return_images return_related_questions role route
    safe_prompt safety_identifier safetySettings schema search_domain_filter search_mode search_parameters
    search_recency_filter search_result seed server_label server_tool_use service_tier shell shell_call
    shell_call_output signature skip_special_tokens slot_id source spaces_between_special_tokens speed status stop
    stop_reason stop_sequences stop_token_ids stopSequences store str_replace_based_edit_tool stream stream_options
    strict structured_outputs summary summary_text system systemInstruction temperature text text_editor tfs_z thinking
    thinking_blocks thinking_budget thinking_signature thinkingBudget thinkingConfig thinkingLevel thought
    thought_signature thoughtSignature threshold title tool_addition tool_call_id tool_calls tool_choice tool_name
    tool_reference tool_removal tool_result tool_search tool_search_call tool_search_output tool_search_tool_bm25
    tool_search_tool_regex tool_use tool_use_id toolCall toolConfig toolResponse tools top_a top_k top_logprobs top_p
    topK topP transforms truncation ttl type typical_p url url_context urlContext usage use_beam_search user user_id
    verbosity video video_url web_fetch web_search web_search_call web_search_options web_search_preview
    web_search_tool_result without_call x_groq
"""
DROPPED_NAME_WORDS = frozenset(_NAMES.split())
"""The parts of names of dropped features: fields and types of the APIs."""

_INDEX = re.compile(r"\[[^\]]*\]")
_DATE = re.compile(r"_20\d{6}$")
_MOST_WORDS = 4


@bounded_cache(entries=4096, longest=100)
def dropped_name(name: str) -> str:
    """The name as a label: words that no API has come from clients and become `other`; dates of versions are removed
    (`tools.web_search_20250305` -> `tools.web_search`)."""
    words = [_DATE.sub("", _INDEX.sub("", word)) for word in name.split(".")]
    return ".".join(word if word in DROPPED_NAME_WORDS else OTHER for word in words[:_MOST_WORDS])


class CappedLabel:
    """The first `most` values pass; later ones become `other`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._seen: set[str] = set()

    def __call__(self, value: str) -> str:
        if value in self._seen:
            return value
        if len(self._seen) >= self._most:
            return OTHER
        self._seen.add(value)
        return value
